package pointwise

import "github.com/trainctl/trainctl/core/engine/kernel/gen/isa"

// Families are the kernels of this package, by the folders below core/engine/kernel.
var Families = []isa.Family{
	{Folder: "peak", Name: "peak", Emit: peak, ISAs: isa.Each},
	{Folder: "peak", Name: "bf16_peak", Emit: peak, ISAs: isa.BF16},
	{Folder: "elementwise", Name: "elementwise", Emit: elementwise, ISAs: isa.Each, Choose: true},
	{Folder: "elementwise", Name: "functions", Emit: functions, ISAs: isa.Each, Choose: true},
	{Folder: "elementwise", Name: "rows", Emit: rowSums, ISAs: isa.Each, Choose: true},
	{Folder: "elementwise", Name: "bf16", Emit: bf16Elementwise, ISAs: isa.BF16, Choose: true},
	{Folder: "loss", Name: "softmax", Emit: softmax, ISAs: isa.Each, Choose: true},
	{Folder: "convert", Name: "convert", Emit: halfConversions, ISAs: isa.Each, Choose: true},
	{Folder: "reduce", Name: "reduce", Emit: halfSums, ISAs: isa.Each, Choose: true},
	{Folder: "optimizer", Name: "update", Emit: update, ISAs: isa.Each, Choose: true},
	{Folder: "image", Name: "levels", Emit: levels, ISAs: isa.Each, Choose: true},
	{Folder: "image", Name: "image", Emit: images, ISAs: isa.Each, Choose: true},
	{Folder: "random", Name: "noise", Emit: noise, ISAs: isa.Each, Choose: true},
}

// Layouts are the structs that these kernels read.
var Layouts = []isa.Layout{
	{Folder: "optimizer", Name: "adamStep", Fields: []isa.Field{
		{Name: "p", Offset: adamP}, {Name: "grad", Offset: adamGrad}, {Name: "m", Offset: adamM}, {Name: "v", Offset: adamV}, {Name: "n", Offset: adamN},
		{Name: "shrink", Offset: adamConstants}, {Name: "decay", Offset: adamConstants + 4}, {Name: "w1", Offset: adamConstants + 8}, {Name: "w2", Offset: adamConstants + 12},
		{Name: "b2", Offset: adamConstants + 16}, {Name: "stepSize", Offset: adamConstants + 20}, {Name: "rootScale", Offset: adamConstants + 24}, {Name: "eps", Offset: adamConstants + 28},
	}},
}
