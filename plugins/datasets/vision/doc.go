// Package vision is what the data sets of colour images share: the random
// numbers of an augmentation, and the way from 8-bit pixels to floats.
//
// It imports core/base/usererr, core/engine/kernel and core/sdk. Start with
// source.go.
package vision
