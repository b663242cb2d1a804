package norm

import (
	"slices"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Families are the kernels of this package, by the folders below core/engine/kernel.
var Families = slices.Concat(
	isa.In("reduce", isa.Family{Name: "sums", Emit: sums, ISAs: isa.Each, Choose: true}),
	isa.In("pool",
		isa.Family{Name: "pool", Emit: isa.All(pool, maxSpan), ISAs: isa.Each, Choose: true},
		isa.Family{Name: "frames", Emit: frames, ISAs: isa.Each, Choose: true},
		isa.Family{Name: "taps", Emit: taps, ISAs: isa.Each, Choose: true},
		isa.Family{Name: "three", Emit: three, ISAs: isa.Each, Choose: true, Lanes: true},
		isa.Family{Name: "cuts", Emit: cuts, ISAs: isa.Each, Choose: true, Lanes: true},
		isa.Family{Name: "separate", Emit: separateWindows, ISAs: isa.Each},
		isa.Family{Name: "spread", Emit: isa.All(spreadMeans, spreadMaxima, mixRows, gatherRows), ISAs: isa.Each, Choose: true, Lanes: true},
	),
	isa.In("layernorm",
		isa.Family{Name: "layernorm", Emit: layerNorm, ISAs: isa.Each, Choose: true},
		isa.Family{Name: "narrow", Emit: narrowNorms, ISAs: isa.Narrow, Choose: true},
		isa.Family{Name: "bf16_layernorm", Emit: bf16LayerNorm, ISAs: isa.BF16, Choose: true},
	),
	isa.In("norm",
		isa.Family{Name: "norm", Emit: norm, ISAs: isa.Each, Choose: true},
		isa.Family{Name: "moments", Emit: isa.All(moments, momentsAround), ISAs: isa.Each, Choose: true},
		isa.Family{Name: "normrelu", Emit: isa.All(normReLU, normSiLU, bothHalves), ISAs: isa.Each, Choose: true},
		isa.Family{Name: "normpool", Emit: isa.All(normPool, normPoolStrips), ISAs: isa.Each, Choose: true},
		isa.Family{Name: "bf16_norm", Emit: bf16Norm, ISAs: isa.BF16, Choose: true},
		isa.Family{Name: "bf16_normpool", Emit: bf16NormPool, ISAs: isa.BF16},
	),
)

// Numbered are those of them that generated functions choose from.
var Numbered = []isa.Numbered{
	{Folder: "pool", Base: "meanColumns", Doc: "averages windows of n columns.", Struct: "columnTile", Most: mostColumns},
	{Folder: "pool", Base: "maxColumns", Doc: "writes the maxima of windows of n columns and their places.", Struct: "columnTile", Most: mostColumns},
}

// Layouts are the structs that these kernels read.
var Layouts = []isa.Layout{
	{Folder: "layernorm", Name: "narrowPass", Fields: []isa.Field{
		{Name: "rows", Offset: nrRows}, {Name: "bytes", Offset: nrBytes}, {Name: "vectors", Offset: nrVectors}, {Name: "rest", Offset: nrRest}, {Name: "tail", Offset: nrTail}, {Name: "x", Offset: nrX}, {Name: "dy", Offset: nrDY}, {Name: "out", Offset: nrOut},
		{Name: "mean", Offset: nrMean}, {Name: "scale", Offset: nrScale}, {Name: "dots", Offset: nrDots}, {Name: "sums", Offset: nrSums},
		{Name: "gamma", Offset: nrGamma}, {Name: "beta", Offset: nrBeta}, {Name: "dgamma", Offset: nrDGamma}, {Name: "dbeta", Offset: nrDBeta}, {Name: "inverse", Offset: nrInverse},
	}},
	{Folder: "pool", Name: "poolTile", Fields: []isa.Field{
		{Name: "rows", Offset: poolRows}, {Name: "x", Offset: poolX}, {Name: "stride", Offset: poolStride}, {Name: "y", Offset: poolY}, {Name: "idx", Offset: poolIdx}, {Name: "outStride", Offset: poolOut},
		{Name: "lo", Offset: poolLo}, {Name: "hi", Offset: poolHi}, {Name: "n", Offset: poolN}, {Name: "at", Offset: poolAt}, {Name: "w", Offset: poolW}, {Name: "evens", Offset: poolEvens},
		{Name: "planes", Offset: poolPlanes}, {Name: "factors", Offset: poolFactors},
	}},
	{Folder: "pool", Name: "frameTile", Fields: []isa.Field{
		{Name: "planes", Offset: ftPlanes}, {Name: "rows", Offset: ftRows}, {Name: "x", Offset: ftX}, {Name: "xStep", Offset: ftXStep}, {Name: "xSkip", Offset: ftXSkip}, {Name: "y", Offset: ftY}, {Name: "yStep", Offset: ftYStep}, {Name: "ySkip", Offset: ftYSkip},
		{Name: "vectors", Offset: ftVectors}, {Name: "lo", Offset: ftLo}, {Name: "hi", Offset: ftHi}, {Name: "rest", Offset: ftRest}, {Name: "order", Offset: ftOrder}, {Name: "second", Offset: ftSecond},
		{Name: "bad", Offset: ftBad}, {Name: "factors", Offset: ftFactors}, {Name: "from", Offset: ftFrom}, {Name: "columns", Offset: ftColumns}, {Name: "line", Offset: ftLine},
	}},
	{Folder: "pool", Name: "tapTile", Fields: []isa.Field{
		{Name: "blocks", Offset: ttBlocks}, {Name: "x", Offset: ttX}, {Name: "at", Offset: ttAt}, {Name: "y", Offset: ttY}, {Name: "idx", Offset: ttIdx}, {Name: "count", Offset: ttCount}, {Name: "taps", Offset: ttTaps},
	}},
	{Folder: "pool", Name: "threeTile", Fields: []isa.Field{
		{Name: "planes", Offset: thPlanes}, {Name: "rows", Offset: thRows}, {Name: "x", Offset: thX}, {Name: "second", Offset: thSecond}, {Name: "third", Offset: thThird}, {Name: "pitch", Offset: thPitch}, {Name: "phase", Offset: thPhase}, {Name: "xPlane", Offset: thXPlane},
		{Name: "y", Offset: thY}, {Name: "yStep", Offset: thYStep}, {Name: "yPlane", Offset: thYPlane}, {Name: "vectors", Offset: thVectors}, {Name: "starts", Offset: thStarts}, {Name: "idx", Offset: thIdx},
		{Name: "columns", Offset: thColumns}, {Name: "from", Offset: thFrom}, {Name: "line", Offset: thLine}, {Name: "factors", Offset: thFactors},
	}},
	{Folder: "pool", Name: "cutTile", Fields: []isa.Field{
		{Name: "planes", Offset: ucPlanes}, {Name: "rows", Offset: ucRows}, {Name: "x", Offset: ucX}, {Name: "xStep", Offset: ucXStep}, {Name: "xSkip", Offset: ucXSkip}, {Name: "y", Offset: ucY}, {Name: "yStep", Offset: ucYStep}, {Name: "ySkip", Offset: ucYSkip},
		{Name: "vectors", Offset: ucVectors}, {Name: "starts", Offset: ucStarts}, {Name: "at", Offset: ucAt}, {Name: "idx", Offset: ucIdx}, {Name: "columns", Offset: ucColumns}, {Name: "from", Offset: ucFrom}, {Name: "line", Offset: ucLine},
		{Name: "factors", Offset: ucFactors}, {Name: "factorStep", Offset: ucFactorStep}, {Name: "order", Offset: ucOrder}, {Name: "second", Offset: ucSecond},
	}},
	{Folder: "pool", Name: "columnTile", Fields: []isa.Field{
		{Name: "planes", Offset: ctPlanes}, {Name: "rows", Offset: ctRows}, {Name: "taps", Offset: ctTaps}, {Name: "x", Offset: ctX}, {Name: "line", Offset: ctLine}, {Name: "step", Offset: ctStep}, {Name: "skip", Offset: ctSkip}, {Name: "y", Offset: ctY}, {Name: "out", Offset: ctOut},
		{Name: "vectors", Offset: ctVectors}, {Name: "places", Offset: ctPlaces}, {Name: "order", Offset: ctOrder}, {Name: "divisor", Offset: ctDivisor}, {Name: "divides", Offset: ctDivides}, {Name: "idx", Offset: ctIdx}, {Name: "columns", Offset: ctColumns},
		{Name: "after", Offset: ctAfter}, {Name: "next", Offset: ctNext}, {Name: "low", Offset: ctLow},
	}},
	{Folder: "pool", Name: "maxSpan", Fields: []isa.Field{
		{Name: "windows", Offset: msWindows}, {Name: "rows", Offset: msRows}, {Name: "x", Offset: msX}, {Name: "line", Offset: msLine}, {Name: "step", Offset: msStep}, {Name: "vectors", Offset: msVectors}, {Name: "rest", Offset: msRest}, {Name: "tail", Offset: msTail},
		{Name: "at", Offset: msAt}, {Name: "first", Offset: msFirst}, {Name: "width", Offset: msWidth}, {Name: "lanes", Offset: msLanes}, {Name: "lowest", Offset: msLowest}, {Name: "none", Offset: msNone}, {Name: "sums", Offset: msSums},
	}},
	{Folder: "pool", Name: "mixTile", Fields: []isa.Field{
		{Name: "rows", Offset: mtRows}, {Name: "x", Offset: mtX}, {Name: "y", Offset: mtY}, {Name: "out", Offset: mtOut}, {Name: "vectors", Offset: mtVectors}, {Name: "columns", Offset: mtColumns}, {Name: "lines", Offset: mtLines},
	}},
	{Folder: "pool", Name: "mixedColumns", Fields: []isa.Field{
		{Name: "from", Offset: mcFrom}, {Name: "to", Offset: mcTo}, {Name: "low", Offset: mcLow}, {Name: "high", Offset: mcHigh}, {Name: "rest", Offset: mcRest}, {Name: "share", Offset: mcShare},
	}},
	{Folder: "pool", Name: "mixedRow", Fields: []isa.Field{{Name: "low", Offset: mlLow}, {Name: "high", Offset: mlHigh}, {Name: "rest", Offset: mlRest}, {Name: "share", Offset: mlShare}}},
	{Folder: "pool", Name: "gatherTile", Fields: []isa.Field{
		{Name: "rows", Offset: gtRows}, {Name: "dy", Offset: gtDY}, {Name: "line", Offset: gtLine}, {Name: "wide", Offset: gtWide}, {Name: "wideAt", Offset: gtWideAt}, {Name: "lines", Offset: gtLines}, {Name: "sums", Offset: gtSums}, {Name: "dx", Offset: gtDX},
		{Name: "out", Offset: gtOut}, {Name: "vectors", Offset: gtVectors}, {Name: "starts", Offset: gtStarts}, {Name: "weights", Offset: gtWeights}, {Name: "step", Offset: gtStep}, {Name: "order", Offset: gtOrder},
	}},
	{Folder: "pool", Name: "gatheredRow", Fields: []isa.Field{{Name: "first", Offset: glFirst}, {Name: "count", Offset: glCount}, {Name: "weights", Offset: glWeights}}},
	{Folder: "pool", Name: "columnPlace", Fields: []isa.Field{{Name: "x", Offset: cpX}, {Name: "y", Offset: cpY}, {Name: "column", Offset: cpColumn}}},
	{Folder: "pool", Name: "spreadTile", Fields: []isa.Field{
		{Name: "planes", Offset: stPlanes}, {Name: "rows", Offset: stRows}, {Name: "copies", Offset: stCopies}, {Name: "dy", Offset: stDY}, {Name: "out", Offset: stOut}, {Name: "dx", Offset: stDX}, {Name: "line", Offset: stLine}, {Name: "vectors", Offset: stVectors}, {Name: "places", Offset: stPlaces},
		{Name: "zeros", Offset: stZeros}, {Name: "zerosAt", Offset: stZerosAt}, {Name: "rest", Offset: stRest}, {Name: "divisor", Offset: stDivisor}, {Name: "divides", Offset: stDivides}, {Name: "idx", Offset: stIdx}, {Name: "width", Offset: stWidth}, {Name: "step", Offset: stStep}, {Name: "start", Offset: stStart},
	}},
	{Folder: "pool", Name: "spreadPlace", Fields: []isa.Field{{Name: "from", Offset: spFrom}, {Name: "to", Offset: spTo}, {Name: "order", Offset: spOrder}, {Name: "lanes", Offset: spLanes}}},
	{Folder: "pool", Name: "poolTap", Fields: []isa.Field{{Name: "offset", Offset: tapOffset}, {Name: "place", Offset: tapPlace}}},
	{Folder: "norm", Name: "poolGradTile", Fields: []isa.Field{
		{Name: "rows", Offset: pgRows}, {Name: "x", Offset: pgX}, {Name: "stride", Offset: pgStride}, {Name: "dy", Offset: pgDY}, {Name: "y", Offset: pgY}, {Name: "idx", Offset: pgIdx}, {Name: "outStride", Offset: pgOut},
		{Name: "n", Offset: pgN}, {Name: "last", Offset: pgLast}, {Name: "counts", Offset: pgCounts}, {Name: "planes", Offset: pgPlanes}, {Name: "each", Offset: pgEach},
		{Name: "dx", Offset: pgDX}, {Name: "lane", Offset: pgLane}, {Name: "place", Offset: pgPlace}, {Name: "counted", Offset: pgCounted}, {Name: "step", Offset: pgStep},
	}},
	{Folder: "norm", Name: "poolPlane", Fields: []isa.Field{
		{Name: "mean", Offset: ppMean}, {Name: "meanDy", Offset: ppMeanDY}, {Name: "slope", Offset: ppSlope}, {Name: "scale", Offset: ppScale}, {Name: "sum", Offset: ppSum}, {Name: "dot", Offset: ppDot},
	}},
	{Folder: "norm", Name: "poolStrip", Fields: []isa.Field{
		{Name: "rows", Offset: psRows}, {Name: "x", Offset: psX}, {Name: "width", Offset: psWidth}, {Name: "dy", Offset: psDY}, {Name: "y", Offset: psY}, {Name: "idx", Offset: psIdx}, {Name: "outStride", Offset: psOut}, {Name: "dx", Offset: psDX},
		{Name: "from", Offset: psFrom}, {Name: "n", Offset: psN}, {Name: "left", Offset: psLeft}, {Name: "right", Offset: psRight}, {Name: "mean", Offset: psMean}, {Name: "shift", Offset: psShift}, {Name: "slope", Offset: psSlope},
		{Name: "scale", Offset: psScale}, {Name: "sum", Offset: psSum}, {Name: "dot", Offset: psDot}, {Name: "ahead", Offset: psAhead}, {Name: "outAhead", Offset: psOutAhead}, {Name: "step", Offset: psStep}, {Name: "place", Offset: psPlace},
		{Name: "planes", Offset: psPlanes}, {Name: "factors", Offset: psFactors},
	}},
	{Folder: "norm", Name: "halfNormPool", Fields: []isa.Field{
		{Name: "rows", Offset: hpRows}, {Name: "x", Offset: hpX}, {Name: "stride", Offset: hpStride}, {Name: "second", Offset: hpSecond}, {Name: "y", Offset: hpY}, {Name: "idx", Offset: hpIdx}, {Name: "out", Offset: hpOut},
		{Name: "load", Offset: hpLoad}, {Name: "store", Offset: hpStore}, {Name: "last", Offset: hpLast}, {Name: "lastStore", Offset: hpLastStore}, {Name: "mean", Offset: hpMean}, {Name: "scale", Offset: hpScale},
		{Name: "shift", Offset: hpShift}, {Name: "sign", Offset: hpSign}, {Name: "width", Offset: hpWidth}, {Name: "base", Offset: hpBase}, {Name: "next", Offset: hpNext}, {Name: "upper", Offset: hpUpper}, {Name: "lower", Offset: hpLower},
	}},
	{Folder: "norm", Name: "halfNormPoolGrad", Fields: []isa.Field{
		{Name: "rows", Offset: hgRows}, {Name: "x", Offset: hgX}, {Name: "stride", Offset: hgStride}, {Name: "second", Offset: hgSecond}, {Name: "y", Offset: hgY}, {Name: "dy", Offset: hgDY}, {Name: "idx", Offset: hgIdx}, {Name: "out", Offset: hgOut},
		{Name: "load", Offset: hgLoad}, {Name: "n", Offset: hgN}, {Name: "dx", Offset: hgDX}, {Name: "mean", Offset: hgMean}, {Name: "slope", Offset: hgSlope}, {Name: "offset", Offset: hgOffset}, {Name: "scale", Offset: hgScale},
		{Name: "width", Offset: hgWidth}, {Name: "next", Offset: hgNext}, {Name: "sum", Offset: hgSum}, {Name: "dot", Offset: hgDot}, {Name: "lane", Offset: hgLane}, {Name: "place", Offset: hgPlace},
	}},
}
