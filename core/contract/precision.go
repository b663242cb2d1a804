package contract

import "github.com/trainctl/trainctl/core/tensor"

// Cast is what a policy does to the inputs of one op type.
type Cast uint8

// The casts of torch.autocast.
const (
	CastNone    Cast = iota // run in whatever type the inputs have
	CastLower               // cast floating inputs to the policy's Lower type
	CastF32                 // cast floating inputs to float32
	CastPromote             // cast floating inputs to the widest among them
	CastBanned              // refuse the op, naming the alternative
)

// Policy is the precision of a run as the plan needs it.
type Policy struct {
	Name          string          // for people: "O1 (autocast bf16)"
	Params        tensor.DType    // type of the model's parameters and activations without casts: F32, or a half type (O2, O3)
	BatchNormF32  bool            // keep batch-norm parameters, statistics and computation in float32
	MasterWeights bool            // the optimizer updates float32 copies, the model gets rounded ones
	Lower         tensor.DType    // what CastLower casts to; Invalid without autocast
	Casts         map[string]Cast // by graph op type ("conv2d", "linear", "cross_entropy"); missing = CastNone
	Scale         float64         // initial loss scale; 1 for none
	Dynamic       bool            // found infinities lower the scale and skip the step; false never skips
	Properties    [][2]string     // what a user should see printed, name and value, in order
}
