// Package agreement exchanges small values between ranks, so that all ranks take the same
// decisions: the totals of a step, one number per rank, whether gradients overflowed.
//
// It imports core/engine/optim, core/sdk and, of core/train, ddp, passes and recovery.
// Start with agreement.go.
package agreement
