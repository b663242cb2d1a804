// Package optimizer has the steps that optimizers take on a parameter.
//
// It imports core/engine/kernel and core/engine/kernel/elementwise. Start with
// update.go.
package optimizer
