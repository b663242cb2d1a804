// Package vision has the code shared by data sets of colour images: the random
// numbers of augmentations, the augmentations that do not depend on the format, and the conversion
// of 8-bit pixels to floats.
//
// It imports core/base/usererr, core/engine/kernel, core/sdk and core/tensor. Start with
// augment.go.
package vision
