// Package geometry is what the algorithms of a convolution share: its shape (shape.go), how
// a stride divides pixels and taps into phases (phase.go), images framed by zeros
// (frame.go), as each column of taps sees them (views.go), as matrices of what filters see (taps.go, windows.go), the part of filters that sees pixels (trim.go), copies of rows (copy.go), and what scratch takes (scratch.go).
//
// It imports core/engine/kernel, and below that elementwise and gemm. Start with shape.go.
package geometry
