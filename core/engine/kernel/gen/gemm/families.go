package gemm

import "github.com/trainctl/trainctl/core/engine/kernel/gen/isa"

// Families are the kernels of this package, by the folders below core/engine/kernel.
var Families = isa.In("gemm",
	isa.Family{Name: "tile", Emit: isa.All(gemm, packEight), ISAs: isa.Each},
	isa.Family{Name: "pack", Emit: pack, ISAs: isa.Each, Choose: true},
	isa.Family{Name: "product_along", Emit: heights(along), ISAs: isa.Each},
	isa.Family{Name: "product_across", Emit: heights(across), ISAs: isa.Each},
	isa.Family{Name: "product_apart", Emit: heights(apart), ISAs: isa.Each},
	isa.Family{Name: "product_narrow", Emit: narrow, ISAs: isa.Each},
	isa.Family{Name: "bf16_tile", Emit: bf16Gemm, ISAs: isa.BF16},
	isa.Family{Name: "bf16_finish", Emit: bf16Finish, ISAs: isa.BF16, Choose: true},
	isa.Family{Name: "bfdot_tile", Emit: bfdotGemm, ISAs: isa.BFDOT},
)

// Layouts are the structs that these kernels read.
var Layouts = []isa.Layout{
	{Folder: "gemm", Name: "Tile", Fields: []isa.Field{
		{Name: "K", Offset: tileK}, {Name: "A", Offset: tileA}, {Name: "B0", Offset: tileB0}, {Name: "B1", Offset: tileB1}, {Name: "Off", Offset: tileOff}, {Name: "C0", Offset: tileC0}, {Name: "C1", Offset: tileC1},
		{Name: "Ldc", Offset: tileLdc}, {Name: "N0", Offset: tileN0}, {Name: "N1", Offset: tileN1}, {Name: "Bias", Offset: tileBias}, {Name: "Add", Offset: tileAdd}, {Name: "Ahead", Offset: tileAhead}, {Name: "Count", Offset: tileCount}, {Name: "BNext", Offset: tileBNext}, {Name: "CNext", Offset: tileCNext}, {Name: "ANext", Offset: tileANext}, {Name: "BiasNext", Offset: tileBiasNext},
	}},
	{Folder: "gemm", Name: "strip", Fields: []isa.Field{
		{Name: "k", Offset: stripK}, {Name: "tiles", Offset: stripTiles}, {Name: "a", Offset: stripA}, {Name: "aStep", Offset: stripAStep}, {Name: "aNext", Offset: stripANext}, {Name: "b", Offset: stripB}, {Name: "bStep", Offset: stripBStep},
		{Name: "c", Offset: stripC}, {Name: "ldc", Offset: stripLdc}, {Name: "n0", Offset: stripN0}, {Name: "n1", Offset: stripN1}, {Name: "gate", Offset: stripGate}, {Name: "bias", Offset: stripBias},
		{Name: "biasNext", Offset: stripBiasNext}, {Name: "add", Offset: stripAdd}, {Name: "floor", Offset: stripFloor}, {Name: "tail", Offset: stripTail}, {Name: "aheadA", Offset: stripAheadA}, {Name: "aheadB", Offset: stripAheadB}, {Name: "aheadC", Offset: stripAheadC}, {Name: "far", Offset: stripFar},
	}},
}
