// Package cost is the model by which package conv chooses an algorithm: estimated cycles of
// what several of them do. Each algorithm adds up its own in its Cost function.
//
// It imports core/engine/kernel and core/engine/kernel/gemm.
package cost
