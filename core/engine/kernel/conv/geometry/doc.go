// Package geometry is what the algorithms of a convolution share: its shape (shape.go), how
// a stride divides pixels and taps into phases (phase.go), images framed by zeros
// (frame.go), as each column of taps sees them (views.go), and copies of rows (copy.go).
//
// It imports core/engine/kernel and core/engine/kernel/gemm. Start with shape.go.
package geometry
