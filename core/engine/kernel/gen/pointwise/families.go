package pointwise

import (
	"slices"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Families are the kernels of this package, by the folders below core/engine/kernel.
var Families = slices.Concat(
	isa.In("", isa.Family{Name: "cpuid", Emit: cpuid, ISAs: isa.Wide}),
	isa.In("peak",
		isa.Family{Name: "peak", Emit: peak, ISAs: isa.Each},
		isa.Family{Name: "bf16_peak", Emit: peak, ISAs: isa.BF16},
	),
	isa.In("elementwise",
		isa.Family{Name: "elementwise", Emit: elementwise, ISAs: isa.Each, Choose: true},
		isa.Family{Name: "functions", Emit: functions, ISAs: isa.Each, Choose: true},
		isa.Family{Name: "rows", Emit: rowSums, ISAs: isa.Each, Choose: true},
		isa.Family{Name: "bf16", Emit: bf16Elementwise, ISAs: isa.BF16, Choose: true},
	),
	isa.In("loss",
		isa.Family{Name: "softmax", Emit: softmax, ISAs: isa.Each, Choose: true},
		isa.Family{Name: "elements", Emit: losses, ISAs: isa.Each, Choose: true},
	),
	isa.In("move", isa.Family{Name: "transpose", Emit: transpose, ISAs: isa.Each, Choose: true, Lanes: true}),
	isa.In("attention", isa.Family{Name: "attention", Emit: attention, ISAs: isa.Each, Choose: true}),
	isa.In("convert", isa.Family{Name: "convert", Emit: halfConversions, ISAs: isa.Each, Choose: true}),
	isa.In("reduce", isa.Family{Name: "reduce", Emit: halfSums, ISAs: isa.Each, Choose: true}),
	isa.In("optimizer", isa.Family{Name: "update", Emit: update, ISAs: isa.Each, Choose: true}),
	isa.In("image",
		isa.Family{Name: "levels", Emit: levels, ISAs: isa.Each, Choose: true},
		isa.Family{Name: "image", Emit: images, ISAs: isa.Each, Choose: true},
	),
	isa.In("random",
		isa.Family{Name: "noise", Emit: noise, ISAs: isa.Each, Choose: true},
		isa.Family{Name: "philox", Emit: dropoutMask, ISAs: isa.Each, Choose: true},
	),
)

// Layouts are the structs that these kernels read.
var Layouts = []isa.Layout{
	{Folder: "optimizer", Name: "adamStep", Fields: []isa.Field{
		{Name: "p", Offset: adamP}, {Name: "grad", Offset: adamGrad}, {Name: "m", Offset: adamM}, {Name: "v", Offset: adamV}, {Name: "vmax", Offset: adamMax}, {Name: "n", Offset: adamN},
		{Name: "shrink", Offset: adamConstants}, {Name: "decay", Offset: adamConstants + 4}, {Name: "w1", Offset: adamConstants + 8}, {Name: "w2", Offset: adamConstants + 12},
		{Name: "b2", Offset: adamConstants + 16}, {Name: "stepSize", Offset: adamConstants + 20}, {Name: "rootScale", Offset: adamConstants + 24}, {Name: "eps", Offset: adamConstants + 28}, {Name: "least", Offset: adamLeast},
	}},
	{Folder: "optimizer", Name: "rmsStep", Fields: []isa.Field{
		{Name: "p", Offset: rmsP}, {Name: "grad", Offset: rmsGrad}, {Name: "square", Offset: rmsSquare}, {Name: "buf", Offset: rmsBuf}, {Name: "mean", Offset: rmsMean}, {Name: "n", Offset: rmsN},
		{Name: "rate", Offset: rmsConstants}, {Name: "alpha", Offset: rmsConstants + 4}, {Name: "rest", Offset: rmsConstants + 8}, {Name: "eps", Offset: rmsConstants + 12}, {Name: "momentum", Offset: rmsConstants + 16}, {Name: "decay", Offset: rmsConstants + 20}, {Name: "least", Offset: rmsLeast},
	}},
}
