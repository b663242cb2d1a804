// Package thirds computes depthwise convolutions with a stride of three columns, by filters of three and up to three rows of which all results see all taps.
//
// It imports core/engine/kernel, and below that elementwise and conv/geometry. Start with thirds.go.
package thirds
