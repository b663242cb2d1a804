// Package pool has max and average pooling with their gradients. pool.go is all of it
// in plain Go; halving.go is the vector version for 2×2 windows.
//
// It imports core/engine/kernel and core/engine/kernel/elementwise. Start with pool.go.
package pool
