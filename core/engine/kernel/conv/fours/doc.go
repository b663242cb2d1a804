// Package fours computes depthwise convolutions of planes of 4×4 with stride 1, by filters of 3×3 and 5×5 with the padding that keeps the planes' size, with vectors of eight lanes.
//
// It imports core/engine/kernel, and below that conv/geometry. Start with fours.go.
package fours
