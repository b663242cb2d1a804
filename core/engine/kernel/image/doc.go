// Package image takes decoded images to the floats of a model: colours, scaling,
// normalisation.
//
// It imports core/engine/kernel. Start with image.go.
package image
