// Package metric computes what an evaluation reports besides the loss: top-k accuracy, precision
// and recall of each class, the confusion matrix, and the samples with the largest loss, with
// pictures of those that are images. Ranks add up counts, so results do not depend on their number.
//
// It imports core/base/usererr, core/report/event, core/sdk and core/tensor. Start with counter.go.
package metric
