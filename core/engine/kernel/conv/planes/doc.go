// Package planes computes depthwise convolutions, plane by plane (planes.go) or, where every output sees every input, as
// products of small matrices (across.go), and weight gradients of all others from planes that lie side by side (dense.go).
//
// It imports core/engine/kernel, and below that elementwise, gemm, reduce, conv/cost and conv/geometry. Start with planes.go.
package planes
