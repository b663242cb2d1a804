package amp

import (
	"strconv"

	"github.com/trainctl/trainctl/core/engine/op"
	_ "github.com/trainctl/trainctl/core/engine/op/activation" // defines activations
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// The cast lists are the classes of operations in core/engine/op. An operation in no
// list runs in the type of its inputs. Batch norm is in no list: it takes half inputs
// with float32 statistics, as cuDNN does.

// autocastLists are those of torch.autocast on CPUs
// (aten/src/ATen/autocast_mode.cpp): convolution and linear run in the lower
// type, losses in float32.
func autocastLists() map[string]sdk.Cast {
	return lists(func(d *op.Definition) op.Class { return d.Autocast })
}

// o1Lists are those of apex/amp/lists: like autocast's, plus functions that need
// precision and layer norm in float32, and additions in the wider of their types.
func o1Lists() map[string]sdk.Cast {
	return lists(func(d *op.Definition) op.Class { return d.Apex })
}

var casts = map[op.Class]sdk.Cast{op.Lower: sdk.CastLower, op.Full: sdk.CastF32, op.Promote: sdk.CastPromote}

func lists(class func(*op.Definition) op.Class) map[string]sdk.Cast {
	m := map[string]sdk.Cast{}
	for _, d := range op.All() {
		if c := class(d); c != op.Any {
			m[string(d.Name)] = casts[c]
		}
	}
	return m
}

func (s settings) policy() sdk.Policy {
	p := sdk.Policy{Params: tensor.F32, Scale: s.scale, Dynamic: s.dynamic}
	switch s.level {
	case "":
		p.Lower, p.Casts = s.dtype, autocastLists()
		p.Name = "autocast " + short(s.dtype)
	case "O0":
		p.Name = "O0"
	case "O1":
		p.Lower, p.Casts = s.dtype, o1Lists()
		p.Name = "O1 " + short(s.dtype)
	default:
		p.Params, p.BatchNormF32, p.MasterWeights = s.dtype, *s.keepBN, *s.master
		p.Name = s.level + " " + short(s.dtype)
	}
	p.Properties = s.properties()
	return p
}

// properties are what amp.initialize prints for a level.
func (s settings) properties() [][2]string {
	scale := "dynamic"
	if !s.dynamic {
		scale = strconv.FormatFloat(s.scale, 'g', -1, 64)
	}
	if s.level == "" {
		return [][2]string{{"autocast", short(s.dtype)}, {"loss_scale", scale}}
	}
	cast := "None"
	switch s.level {
	case "O0":
		cast = "fp32"
	case "O2", "O3":
		cast = short(s.dtype)
	}
	return [][2]string{
		{"cast_model_type", cast},
		{"patch_torch_functions", title(s.level == "O1")},
		{"keep_batchnorm_fp32", tristate(s.keepBN)},
		{"master_weights", tristate(s.master)},
		{"loss_scale", scale},
	}
}

func short(d tensor.DType) string {
	if d == tensor.F16 {
		return "fp16"
	}
	return d.String()
}

func title(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

func tristate(b *bool) string {
	if b == nil {
		return "None"
	}
	return title(*b)
}
