// Package vision has the code shared by data sets of colour images: the random
// numbers of augmentations, and the conversion of 8-bit pixels to floats.
//
// It imports core/base/usererr, core/engine/kernel and core/sdk. Start with
// source.go.
package vision
