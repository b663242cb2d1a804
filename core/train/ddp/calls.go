package ddp

import (
	"fmt"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Call is a kind of collective that a run uses. The backend must publish it
// (sdk.Info.Does).
type Call struct {
	Op      sdk.Op
	DType   tensor.DType
	purpose string // what it carries
	Key     string // the setting that asks for it; "" where every run of several ranks makes it
	Help    string // what to set instead
}

func (c Call) String() string {
	if c.Op.Definition().Reduces {
		return fmt.Sprintf("%v of %v (%s)", c.Op, c.DType, c.purpose)
	}
	return fmt.Sprintf("%v (%s)", c.Op, c.purpose)
}

// Calls lists every kind of collective that a run of several ranks with gradients of
// the given types uses. Add new kinds of collectives here: the list is compared with
// what a backend publishes before the first one.
func (c Config) Calls(types []tensor.DType) []Call {
	calls := []Call{
		{Op: sdk.OpBroadcast, DType: tensor.U8, purpose: "weights and buffers"},
		{Op: sdk.OpAllReduce, DType: tensor.F64, purpose: "totals of a step"},
		{Op: sdk.OpAllGather, DType: tensor.F64, purpose: "which ranks have data left, and batch statistics"},
	}
	for _, d := range types {
		calls = append(calls, c.gradientCall(d))
	}
	if c.Compress == "powersgd" {
		calls = append(calls, Call{sdk.OpAllReduce, tensor.F32, "PowerSGD's factors", "ddp.compress", `set it to "none"`})
	}
	if c.FindUnusedParameters {
		calls = append(calls, Call{sdk.OpAllReduce, tensor.I32, "which parameters were used", "ddp.find_unused_parameters", "set it to false"})
	}
	if c.BucketCapMB.IsAuto() {
		const key, help = "ddp.bucket_cap_mb", "give a number, as 25"
		calls = append(calls, Call{sdk.OpBarrier, tensor.U8, "measuring", key, help}, Call{sdk.OpAllReduce, tensor.F32, "measuring", key, help})
	}
	return calls
}

// gradientCall is the all-reduce of a bucket of type d, and the setting to change if
// the backend does not support it.
func (c Config) gradientCall(d tensor.DType) Call {
	call := Call{Op: sdk.OpAllReduce, DType: codec{half: c.half()}.wireType(d), purpose: "gradients"}
	switch {
	case call.DType != d:
		call.Key, call.Help = "ddp.compress", `set it to "none"`
	case d.Half():
		call.Key, call.Help = "precision.plugin", "use a precision whose parameters are float32"
	case d == tensor.F64:
		call.Key, call.Help = "run.dtype", `set it to "f32"`
	}
	return call
}

// Missing are the calls that a backend does not publish.
func Missing(info *sdk.Info, calls []Call) (missing []Call) {
	for _, c := range calls {
		if !info.Does(c.Op, c.DType) {
			missing = append(missing, c)
		}
	}
	return missing
}
