// Package winograd computes convolutions with fewer products than their definition has, by
// Winograd's algorithm: winograd.go says how and when, forward.go and weight.go are the
// directions, layout.go copies images to vectors of channels and back. lanes.go is another weight
// gradient that uses its micro-kernel, without a transform.
//
// It imports core/tensor, core/engine/kernel, its convert, and conv/cost and conv/geometry. Start
// with winograd.go.
package winograd
