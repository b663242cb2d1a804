// Package reduce combines buffers element by element as collectives do, scales them,
// and sums up what is in them. Buffers come as bytes with an element type.
//
// It imports core/tensor, core/engine/kernel, core/engine/kernel/convert and
// core/engine/kernel/elementwise. Start with reduce.go.
package reduce
