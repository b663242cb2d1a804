// Package samples has the code shared by data sets that hold numbers in memory, whatever their file
// format: arrays of any element type, their normalisation, targets, and batches.
//
// It imports core/base/usererr, core/sdk and core/tensor. Start with set.go.
package samples
