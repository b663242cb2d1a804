// Package activation has the formulas of the operations of core/engine/op/activation, and of
// their slopes, in float64: a file each. core/engine/devicetest compares devices with them.
//
// It imports core/engine/op and core/engine/graph. Start with activation.go.
package activation
