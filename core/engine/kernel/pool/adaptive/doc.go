// Package adaptive has average pooling to a given size, and its gradient: adaptive.go.
//
// It imports core/engine/kernel and core/engine/kernel/elementwise.
package adaptive
