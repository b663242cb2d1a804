package tensor

// Named is a tensor with its name in a state dict: a parameter, a buffer, or
// one piece of an optimizer's state.
type Named struct {
	Name string
	Tensor
}
