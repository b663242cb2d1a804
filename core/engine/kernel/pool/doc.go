// Package pool has max and average pooling and upsampling with their gradients. pool.go is all of pooling
// in plain Go, upsample.go of upsampling; halving.go is the vector version for max pooling of 2×2 windows with stride 2, separate.go the one for
// windows that do not overlap, separate_grad.go its gradients, span.go that of maxima over many columns, windows.go has the tables of the one for all other windows, and vectors.go
// its calls.
//
// It imports core/engine/kernel, core/engine/kernel/elementwise and core/engine/kernel/conv/geometry, whose
// frames split planes by a stride. Start with pool.go.
package pool
