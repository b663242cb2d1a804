// Package move copies elements to other places without looking at them: parts of
// rows for concatenation and splitting, and dimensions in another order.
//
// It imports core/engine/kernel. Start with permute.go.
package move
