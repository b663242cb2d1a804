// Package loss has the loss functions, each with its gradient in the same pass.
//
// It imports core/engine/kernel and core/engine/kernel/elementwise. Start with
// loss.go.
package loss
