// Package adaptive has average pooling to a given size, and its gradient: adaptive.go, and planes.go for small planes, which are
// transposed.
//
// It imports core/engine/kernel, core/engine/kernel/elementwise and core/engine/kernel/move.
package adaptive
