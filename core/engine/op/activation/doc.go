// Package activation defines the activations that are functions of one element, one
// file each: relu.go, silu.go and so on. [op.DefinePointwise] derives their shape
// rule, gradient and steps from what a file says.
//
// It imports core/engine/op and core/engine/graph. Start with tanh.go.
package activation
