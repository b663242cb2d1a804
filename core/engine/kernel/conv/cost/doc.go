// Package cost is the model by which package conv chooses an algorithm. Each algorithm's package
// counts what it does of several kinds in its Terms, and has the cycles of each kind in its Rates. Those were
// fitted to the times in core/bench/testdata/algorithms, which a test holds the choices against.
//
// It imports core/engine/kernel and core/engine/kernel/gemm.
package cost
