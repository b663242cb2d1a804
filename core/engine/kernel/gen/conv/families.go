package conv

import (
	"slices"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Families are the kernels of this package, by the folders below core/engine/kernel.
var Families = slices.Concat(
	isa.In("conv/direct",
		isa.Family{Name: "dot", Emit: dot, ISAs: isa.Each},
		isa.Family{Name: "bf16_dot", Emit: dot, ISAs: isa.BF16},
		isa.Family{Name: "bf16_picks", Emit: bf16Picks, ISAs: isa.BF16, Choose: true},
		isa.Family{Name: "view_dots", Emit: viewDots, ISAs: isa.Each},
		isa.Family{Name: "filter_tile", Emit: filterTiles, ISAs: isa.Each},
	),
	isa.In("conv/images",
		isa.Family{Name: "nest", Emit: nest, ISAs: isa.Each},
		isa.Family{Name: "nest_tiles", Emit: nestTogether, ISAs: isa.Each},
		isa.Family{Name: "nest_pairs", Emit: nestPairs, ISAs: isa.Wide},
		isa.Family{Name: "move_lanes", Emit: moveLanes, ISAs: isa.Each},
	),
	isa.In("conv/planes",
		isa.Family{Name: "planes", Emit: planes, ISAs: isa.Each},
		isa.Family{Name: "slide", Emit: slide, ISAs: isa.Each},
		isa.Family{Name: "strided", Emit: strided, ISAs: isa.Narrow, Choose: true},
		isa.Family{Name: "wide", Emit: wide, ISAs: isa.Wide, Choose: true},
		isa.Family{Name: "wide_strided", Emit: wideStrided, ISAs: isa.Wide, Choose: true},
		isa.Family{Name: "tiles", Emit: tiles, ISAs: isa.Narrow, Choose: true},
		isa.Family{Name: "small", Emit: small, ISAs: isa.Wide, Choose: true},
	),
	isa.In("conv/thirds",
		isa.Family{Name: "thirds", Emit: thirds, ISAs: isa.Each},
	),
	isa.In("conv/fours",
		isa.Family{Name: "fours", Emit: fours, ISAs: isa.Narrow, Choose: true},
	),
	isa.In("conv/lines",
		isa.Family{Name: "lines", Emit: lineWindows, ISAs: isa.Each, Choose: true},
		isa.Family{Name: "line_slides", Emit: lineSlides, ISAs: isa.Each},
	),
	isa.In("conv/interleaved",
		isa.Family{Name: "pixels", Emit: isa.All(interleaveIn, interleaveOut, pixelSums, pixelPairs), ISAs: isa.Each, Choose: true},
		isa.Family{Name: "dots", Emit: interleavedDots, ISAs: isa.Each},
	),
	isa.In("conv/geometry",
		isa.Family{Name: "im2col", Emit: im2col, ISAs: isa.Each, Choose: true},
		isa.Family{Name: "lane_sums", Emit: laneSums, ISAs: isa.Each, Choose: true},
		isa.Family{Name: "plane_copies", Emit: planeCopies, ISAs: isa.Narrow, Choose: true},
		isa.Family{Name: "run_copies", Emit: runCopies, ISAs: isa.Narrow, Choose: true},
		isa.Family{Name: "tap_rows", Emit: tapRows, ISAs: isa.Each, Choose: true},
		isa.Family{Name: "window_taps", Emit: windowTaps, ISAs: isa.Each, Choose: true},
		isa.Family{Name: "view_rows", Emit: viewRows, ISAs: isa.Wide, Choose: true},
	),
	isa.In("conv/winograd",
		isa.Family{Name: "winograd", Emit: winograd, ISAs: isa.Each, Choose: true},
		isa.Family{Name: "winograd_lines", Emit: winogradLines, ISAs: isa.Each, Choose: true},
		isa.Family{Name: "taps", Emit: tapSums, ISAs: isa.Narrow, Choose: true},
		isa.Family{Name: "half_planes", Emit: halfPlanes, ISAs: isa.Narrow, Choose: true},
		isa.Family{Name: "bf16_winograd", Emit: bf16Winograd, ISAs: isa.BF16, Choose: true},
	),
)

// Numbered are those of them that generated functions choose from.
var Numbered = []isa.Numbered{
	{Folder: "conv/direct", Base: "filterTile", Doc: "computes tiles of twice that many rows of a vector of so many lanes.", Most: filterHeight / 2},
	{Folder: "conv/direct", Base: "filterPair", Struct: "filterTile", Doc: "computes tiles of twice that many rows of two vectors of so many lanes.", Most: filterPairHeight / 2},
	{Folder: "conv/images", Base: "nestTile", Doc: "computes tiles of that many rows of a vector of so many lanes.", Most: nestRows},
	{Folder: "conv/images", Base: "nestTiles", Struct: "nestTile", Doc: "computes several tiles of that many rows of a vector of so many lanes at a time.", Most: len(together), NarrowMost: narrowTogether},
	{Folder: "conv/images", Base: "nestPair", Struct: "nestTile", Doc: "computes tiles of that many rows of a pair of vectors of eight lanes.", Most: nestRows, Wide: true},
	{Folder: "conv/images", Base: "moveLanes", Doc: "transposes squares of so many lanes, from images (1) or back to them (2).", Most: 2},
	{Folder: "conv/planes", Base: "planeTile", Doc: "computes tiles of that many rows of vectors of so many lanes.", Most: 8},
	{Folder: "conv/planes", Base: "planeDots", Doc: "computes sums for columns of that many taps with vectors of so many lanes.", Most: columnTaps},
	{Folder: "conv/planes", Base: "slideRows", Doc: "computes planes of that many images with vectors of so many lanes.", Most: 2},
	{Folder: "conv/planes", Base: "slideDots", Doc: "adds the sums of weight gradients with vectors of so many lanes.", Most: 1},
	{Folder: "conv/thirds", Base: "thirdsForward", Struct: "thirdPlanes", Doc: "convolves planes with a stride of three columns, by filters of that many rows and three columns, with vectors of so many lanes.", Most: thirdTaps},
	{Folder: "conv/thirds", Base: "thirdsGrad", Struct: "thirdPlanes", Doc: "computes the gradient of planes that these filters see.", Most: thirdTaps},
	{Folder: "conv/thirds", Base: "thirdsDots", Struct: "thirdPlanes", Doc: "adds the products of dy and x for these filters.", Most: thirdTaps},
	{Folder: "conv/lines", Base: "lineSlide", Struct: "lineWindows", Doc: "convolves rows with that many neighbouring taps, or some that see every second element, with vectors of so many lanes.", Most: slideKinds},
	{Folder: "conv/lines", Base: "lineSlideDots", Struct: "lineWindows", Doc: "adds the products of dy and x for as many taps.", Most: slideKinds},
	{Folder: "conv/lines", Base: "lineSlideStrided", Struct: "lineWindows", Doc: "convolves rows with that many neighbouring taps and stride 2, with vectors of so many lanes.", Most: slideMost, NarrowMost: slideNarrow},
	{Folder: "conv/lines", Base: "lineSlideDotsStrided", Struct: "lineWindows", Doc: "adds the products of dy and x for as many taps.", Most: slideMost, NarrowMost: slideNarrow},
	{Folder: "conv/lines", Base: "lineSlidePhases", Struct: "lineWindows", Doc: "convolves rows to even and odd elements of results with half as many neighbouring taps, with vectors of so many lanes.", Most: 2 * slideMost, NarrowMost: 2 * slideNarrow},
	{Folder: "conv/interleaved", Base: "pixelDots", Doc: "adds sums for that many weights with vectors of so many lanes.", Most: interleavedMost},
	{Folder: "conv/interleaved", Base: "pixelDotsPair", Struct: "pixelDots", Doc: "adds sums for that many weights of two outputs of each channel with vectors of so many lanes.", Most: interleavedPairs},
}

// Layouts are the structs that these kernels read.
var Layouts = []isa.Layout{
	{Folder: "conv/direct", Name: "dotTile", Fields: []isa.Field{{Name: "count", Offset: dotCount}, {Name: "steps", Offset: dotSteps}, {Name: "dy", Offset: dotDY}, {Name: "stride", Offset: dotStride}, {Name: "x", Offset: dotX}, {Name: "out", Offset: dotOut}, {Name: "whole", Offset: dotWhole}}},
	{Folder: "conv/direct", Name: "dotStep", Fields: []isa.Field{{Name: "dy", Offset: 0}, {Name: "x", Offset: 4}, {Name: "lanes", Offset: 8}}},
	{Folder: "conv/direct", Name: "viewDots", Fields: []isa.Field{
		{Name: "images", Offset: vdImages}, {Name: "dyImage", Offset: vdDYImage}, {Name: "xImage", Offset: vdXImage}, {Name: "vectors", Offset: vdVectors}, {Name: "tail", Offset: vdTail},
		{Name: "dy", Offset: vdDY}, {Name: "dyRow", Offset: vdDYRow}, {Name: "sums", Offset: vdSums}, {Name: "x", Offset: vdX},
	}},
	{Folder: "conv/direct", Name: "filterTile", Fields: []isa.Field{
		{Name: "a", Offset: ftA}, {Name: "b", Offset: ftB}, {Name: "c", Offset: ftC}, {Name: "places", Offset: ftPlaces}, {Name: "rows", Offset: ftRows}, {Name: "count", Offset: ftCount}, {Name: "tiles", Offset: ftTiles}, {Name: "start", Offset: ftStart}, {Name: "bNext", Offset: ftBNext}, {Name: "cNext", Offset: ftCNext}, {Name: "rowsAt", Offset: ftRowsAt}, {Name: "cAt", Offset: ftCAt},
	}},
	{Folder: "conv/geometry", Name: "viewRows", Fields: []isa.Field{
		{Name: "planes", Offset: vrPlanes}, {Name: "rows", Offset: vrRows}, {Name: "vectors", Offset: vrVectors}, {Name: "src", Offset: vrSrc}, {Name: "from", Offset: vrFrom}, {Name: "dst", Offset: vrDst}, {Name: "masks", Offset: vrMasks},
		{Name: "srcPlane", Offset: vrSrcPlane}, {Name: "srcRow", Offset: vrSrcRow}, {Name: "dstPlane", Offset: vrDstPlane}, {Name: "dstRow", Offset: vrDstRow}, {Name: "picks", Offset: vrPicks}, {Name: "second", Offset: vrSecond},
	}},
	{Folder: "conv/images", Name: "nestTile", Fields: []isa.Field{
		{Name: "a", Offset: ntA}, {Name: "b", Offset: ntB}, {Name: "c", Offset: ntC}, {Name: "ldc", Offset: ntLdc}, {Name: "inner", Offset: ntInner}, {Name: "middle", Offset: ntMiddle}, {Name: "outer", Offset: ntOuter},
		{Name: "aInner", Offset: ntAInner}, {Name: "bInner", Offset: ntBInner}, {Name: "aMiddle", Offset: ntAMiddle}, {Name: "bMiddle", Offset: ntBMiddle}, {Name: "aOuter", Offset: ntAOuter}, {Name: "bOuter", Offset: ntBOuter},
		{Name: "tiles", Offset: ntTiles}, {Name: "bNext", Offset: ntBNext}, {Name: "cNext", Offset: ntCNext}, {Name: "bPair", Offset: ntBPair}, {Name: "cPair", Offset: ntCPair}, {Name: "bias", Offset: ntBias},
		{Name: "bAt", Offset: ntBAt}, {Name: "cAt", Offset: ntCAt},
	}},
	{Folder: "conv/images", Name: "moveLanes", Fields: []isa.Field{{Name: "blocks", Offset: mlBlocks}, {Name: "images", Offset: mlImages}, {Name: "between", Offset: mlBetween}, {Name: "lanes", Offset: mlLanes}}},
	{Folder: "conv/planes", Name: "planeTile", Fields: []isa.Field{
		{Name: "images", Offset: plImages}, {Name: "xImage", Offset: plXImage}, {Name: "yImage", Offset: plYImage}, {Name: "blocks", Offset: plBlocks}, {Name: "block", Offset: plBlock}, {Name: "next", Offset: plNext},
		{Name: "groups", Offset: plGroups}, {Name: "xGroup", Offset: plXGroup}, {Name: "yGroup", Offset: plYGroup}, {Name: "columns", Offset: plColumns}, {Name: "off", Offset: plOff}, {Name: "weights", Offset: plWeights}, {Name: "bias", Offset: plBias},
		{Name: "x", Offset: plX}, {Name: "y", Offset: plY}, {Name: "xStep", Offset: plXStep}, {Name: "yStep", Offset: plYStep}, {Name: "ahead", Offset: plAhead}, {Name: "left", Offset: plLeft}, {Name: "xAt", Offset: plXAt}, {Name: "yAt", Offset: plYAt}, {Name: "xBlock", Offset: plXBlock}, {Name: "yBlock", Offset: plYBlock},
	}},
	{Folder: "conv/planes", Name: "planeDots", Fields: []isa.Field{
		{Name: "images", Offset: pdImages}, {Name: "xImage", Offset: pdXImage}, {Name: "dyImage", Offset: pdDYImage}, {Name: "blocks", Offset: pdBlocks}, {Name: "left", Offset: pdLeft}, {Name: "rows", Offset: pdRows},
		{Name: "xRow", Offset: pdXRow}, {Name: "dyRow", Offset: pdDYRow}, {Name: "dy", Offset: pdDY}, {Name: "off", Offset: pdOff}, {Name: "at", Offset: pdAt}, {Name: "out", Offset: pdOut}, {Name: "x", Offset: pdX},
	}},
	{Folder: "conv/planes", Name: "slideBlock", Fields: []isa.Field{{Name: "x", Offset: sbX}, {Name: "y", Offset: sbY}}},
	{Folder: "conv/planes", Name: "slideRows", Fields: []isa.Field{
		{Name: "x", Offset: slX}, {Name: "y", Offset: slY}, {Name: "xNext", Offset: slXNext}, {Name: "yNext", Offset: slYNext}, {Name: "planes", Offset: slPlanes}, {Name: "xPlane", Offset: slXPlane}, {Name: "yPlane", Offset: slYPlane}, {Name: "blocks", Offset: slBlocks}, {Name: "table", Offset: slTable}, {Name: "lead", Offset: slLead}, {Name: "rows", Offset: slRows},
		{Name: "tail", Offset: slTail}, {Name: "xRow", Offset: slXRow}, {Name: "yRow", Offset: slYRow}, {Name: "xColumn", Offset: slXColumn}, {Name: "weights", Offset: slWeights}, {Name: "bias", Offset: slBias}, {Name: "biasNext", Offset: slBiasNext}, {Name: "xAt", Offset: slXAt}, {Name: "yAt", Offset: slYAt}, {Name: "left", Offset: slLeft}, {Name: "weightsAt", Offset: slWeightsAt}, {Name: "biasAt", Offset: slBiasAt},
	}},
	{Folder: "conv/planes", Name: "slideDots", Fields: []isa.Field{
		{Name: "x", Offset: sdX}, {Name: "dy", Offset: sdDY}, {Name: "images", Offset: sdImages}, {Name: "xImage", Offset: sdXImage}, {Name: "dyImage", Offset: sdDYImage}, {Name: "planes", Offset: sdPlanes}, {Name: "xPlane", Offset: sdXPlane}, {Name: "dyPlane", Offset: sdDYPlane}, {Name: "blocks", Offset: sdBlocks}, {Name: "table", Offset: sdTable}, {Name: "before", Offset: sdBefore},
		{Name: "rows", Offset: sdRows}, {Name: "after", Offset: sdAfter}, {Name: "xRow", Offset: sdXRow}, {Name: "dyRow", Offset: sdDYRow}, {Name: "xColumn", Offset: sdXColumn}, {Name: "sums", Offset: sdSums}, {Name: "xAt", Offset: sdXAt}, {Name: "dyAt", Offset: sdDYAt}, {Name: "left", Offset: sdLeft}, {Name: "blocksLeft", Offset: sdBlocksLeft}, {Name: "xPlaneAt", Offset: sdXPlaneAt}, {Name: "dyPlaneAt", Offset: sdDYPlaneAt}, {Name: "sumsAt", Offset: sdSumsAt},
	}},
	{Folder: "conv/planes", Name: "stridedPlanes", Fields: []isa.Field{
		{Name: "planes", Offset: spPlanes}, {Name: "x", Offset: spX}, {Name: "y", Offset: spY}, {Name: "xPlane", Offset: spXPlane}, {Name: "yPlane", Offset: spYPlane},
		{Name: "xRow", Offset: spXRow}, {Name: "yRow", Offset: spYRow}, {Name: "xFirst", Offset: spXFirst}, {Name: "yFirst", Offset: spYFirst}, {Name: "xEnd", Offset: spXEnd}, {Name: "yEnd", Offset: spYEnd},
		{Name: "head", Offset: spHead}, {Name: "body", Offset: spBody}, {Name: "tail", Offset: spTail}, {Name: "weights", Offset: spWeights}, {Name: "bias", Offset: spBias}, {Name: "biasStep", Offset: spBiasStep},
		{Name: "zeros", Offset: spZeros}, {Name: "lost", Offset: spLost}, {Name: "sums", Offset: spSums}, {Name: "left", Offset: spLeft}, {Name: "xAt", Offset: spXAt}, {Name: "yAt", Offset: spYAt}, {Name: "weightsAt", Offset: spWeightsAt}, {Name: "biasAt", Offset: spBiasAt}, {Name: "sumsAt", Offset: spSumsAt}, {Name: "bodyLeft", Offset: spBodyLeft}, {Name: "room", Offset: spRoom},
	}},
	{Folder: "conv/planes", Name: "stridedRoom", Fields: []isa.Field{{Name: "runs", Offset: srRuns}, {Name: "taps", Offset: srTaps}}},
	{Folder: "conv/planes", Name: "columnRun", Fields: []isa.Field{{Name: "blocks", Offset: crBlocks}, {Name: "x", Offset: crX}, {Name: "y", Offset: crY}, {Name: "way", Offset: crWay}, {Name: "masks", Offset: crMasks}}},
	{Folder: "conv/planes", Name: "widePlanes", Fields: []isa.Field{
		{Name: "x", Offset: wpX}, {Name: "y", Offset: wpY}, {Name: "xNext", Offset: wpXNext}, {Name: "yNext", Offset: wpYNext}, {Name: "planes", Offset: wpPlanes}, {Name: "xPlane", Offset: wpXPlane}, {Name: "yPlane", Offset: wpYPlane}, {Name: "images", Offset: wpImages}, {Name: "xImage", Offset: wpXImage}, {Name: "yImage", Offset: wpYImage}, {Name: "xRow", Offset: wpXRow}, {Name: "yRow", Offset: wpYRow}, {Name: "xColumn", Offset: wpXColumn}, {Name: "tiles", Offset: wpTiles}, {Name: "table", Offset: wpTable}, {Name: "weights", Offset: wpWeights}, {Name: "bias", Offset: wpBias}, {Name: "biasNext", Offset: wpBiasNext}, {Name: "sums", Offset: wpSums}, {Name: "xAt", Offset: wpXAt}, {Name: "yAt", Offset: wpYAt}, {Name: "xPlaneAt", Offset: wpXPlaneAt}, {Name: "yPlaneAt", Offset: wpYPlaneAt}, {Name: "weightsAt", Offset: wpWeightsAt}, {Name: "biasAt", Offset: wpBiasAt}, {Name: "sumsAt", Offset: wpSumsAt}, {Name: "imagesLeft", Offset: wpImagesLeft}, {Name: "tilesLeft", Offset: wpTilesLeft}, {Name: "orders", Offset: wpOrders}, {Name: "ahead", Offset: wpAhead}, {Name: "add", Offset: wpAdd}, {Name: "weightStep", Offset: wpWeightStep}, {Name: "weightRow", Offset: wpWeightRow}, {Name: "weightsPlane", Offset: wpWeightsPlane},
	}},
	{Folder: "conv/planes", Name: "tilePlanes", Fields: []isa.Field{
		{Name: "x", Offset: tpX}, {Name: "y", Offset: tpY}, {Name: "planes", Offset: tpPlanes}, {Name: "xPlane", Offset: tpXPlane}, {Name: "yPlane", Offset: tpYPlane}, {Name: "images", Offset: tpImages}, {Name: "xImage", Offset: tpXImage}, {Name: "yImage", Offset: tpYImage}, {Name: "xRow", Offset: tpXRow}, {Name: "yRow", Offset: tpYRow}, {Name: "xColumn", Offset: tpXColumn}, {Name: "columns", Offset: tpColumns}, {Name: "tiles", Offset: tpTiles}, {Name: "table", Offset: tpTable}, {Name: "masks", Offset: tpMasks}, {Name: "weights", Offset: tpWeights}, {Name: "weightStep", Offset: tpWeightStep}, {Name: "weightRow", Offset: tpWeightRow}, {Name: "weightsPlane", Offset: tpWeightsPlane}, {Name: "bias", Offset: tpBias}, {Name: "biasNext", Offset: tpBiasNext}, {Name: "sums", Offset: tpSums}, {Name: "sumsRow", Offset: tpSumsRow}, {Name: "sumsPlane", Offset: tpSumsPlane}, {Name: "xAt", Offset: tpXAt}, {Name: "yAt", Offset: tpYAt}, {Name: "xPlaneAt", Offset: tpXPlaneAt}, {Name: "yPlaneAt", Offset: tpYPlaneAt}, {Name: "weightsAt", Offset: tpWeightsAt}, {Name: "biasAt", Offset: tpBiasAt}, {Name: "sumsAt", Offset: tpSumsAt}, {Name: "imagesLeft", Offset: tpImagesLeft}, {Name: "tilesLeft", Offset: tpTilesLeft}, {Name: "lanes", Offset: tpLanes}, {Name: "far", Offset: tpFar}, {Name: "odds", Offset: tpOdds},
	}},
	{Folder: "conv/planes", Name: "rowTile", Fields: []isa.Field{
		{Name: "x", Offset: rtX}, {Name: "y", Offset: rtY}, {Name: "rows", Offset: rtRows}, {Name: "first", Offset: rtFirst}, {Name: "end", Offset: rtEnd}, {Name: "masks", Offset: rtMasks}, {Name: "whole", Offset: rtWhole},
	}},
	{Folder: "conv/planes", Name: "wideTile", Fields: []isa.Field{
		{Name: "x", Offset: wtX}, {Name: "y", Offset: wtY}, {Name: "rows", Offset: wtRows}, {Name: "first", Offset: wtFirst}, {Name: "end", Offset: wtEnd}, {Name: "masks", Offset: wtMasks},
	}},
	{Folder: "conv/planes", Name: "wideStrides", Fields: []isa.Field{
		{Name: "x", Offset: wsX}, {Name: "y", Offset: wsY}, {Name: "xNext", Offset: wsXNext}, {Name: "yNext", Offset: wsYNext}, {Name: "planes", Offset: wsPlanes}, {Name: "xPlane", Offset: wsXPlane}, {Name: "yPlane", Offset: wsYPlane}, {Name: "images", Offset: wsImages}, {Name: "xImage", Offset: wsXImage}, {Name: "yImage", Offset: wsYImage}, {Name: "xRow", Offset: wsXRow}, {Name: "yRow", Offset: wsYRow}, {Name: "xFirst", Offset: wsXFirst}, {Name: "xEnd", Offset: wsXEnd}, {Name: "yEnd", Offset: wsYEnd}, {Name: "steps", Offset: wsSteps}, {Name: "blocks", Offset: wsBlocks}, {Name: "table", Offset: wsTable}, {Name: "weights", Offset: wsWeights}, {Name: "bias", Offset: wsBias}, {Name: "biasNext", Offset: wsBiasNext}, {Name: "sums", Offset: wsSums}, {Name: "xAt", Offset: wsXAt}, {Name: "yAt", Offset: wsYAt}, {Name: "xPlaneAt", Offset: wsXPlaneAt}, {Name: "yPlaneAt", Offset: wsYPlaneAt}, {Name: "weightsAt", Offset: wsWeightsAt}, {Name: "biasAt", Offset: wsBiasAt}, {Name: "sumsAt", Offset: wsSumsAt}, {Name: "imagesLeft", Offset: wsImagesLeft}, {Name: "blocksLeft", Offset: wsBlocksLeft}, {Name: "ahead", Offset: wsAhead},
	}},
	{Folder: "conv/planes", Name: "wideColumns", Fields: []isa.Field{
		{Name: "x", Offset: wcX}, {Name: "y", Offset: wcY}, {Name: "maskX", Offset: wcMasks + wcMaskX}, {Name: "maskY", Offset: wcMasks + wcMaskY}, {Name: "views", Offset: wcMasks + wcMaskViews}, {Name: "orders", Offset: wcOrders},
	}},
	{Folder: "conv/lines", Name: "lineWindows", Fields: []isa.Field{
		{Name: "x", Offset: lwX}, {Name: "y", Offset: lwY}, {Name: "rows", Offset: lwRows}, {Name: "xRow", Offset: lwXRow}, {Name: "yRow", Offset: lwYRow}, {Name: "images", Offset: lwImages}, {Name: "xImage", Offset: lwXImage}, {Name: "yImage", Offset: lwYImage}, {Name: "tiles", Offset: lwTiles}, {Name: "table", Offset: lwTable}, {Name: "masks", Offset: lwMasks}, {Name: "groups", Offset: lwGroups}, {Name: "list", Offset: lwList}, {Name: "steps", Offset: lwSteps}, {Name: "pairs", Offset: lwPairs}, {Name: "weights", Offset: lwWeights}, {Name: "weightsRow", Offset: lwWeightsRow}, {Name: "weightNext", Offset: lwWeightNext}, {Name: "bias", Offset: lwBias}, {Name: "biasRow", Offset: lwBiasRow}, {Name: "xAt", Offset: lwXAt}, {Name: "yAt", Offset: lwYAt}, {Name: "imagesLeft", Offset: lwImagesLeft}, {Name: "rowsLeft", Offset: lwRowsLeft}, {Name: "groupsLeft", Offset: lwGroupsLeft}, {Name: "tileAt", Offset: lwTileAt}, {Name: "edges", Offset: lwEdges},
	}},
	{Folder: "conv/lines", Name: "windowTile", Fields: []isa.Field{{Name: "x", Offset: wiX}, {Name: "y", Offset: wiY}, {Name: "vectors", Offset: wiVectors}, {Name: "edges", Offset: wiEdges}, {Name: "last", Offset: wiLast}}},
	{Folder: "conv/lines", Name: "windowGroup", Fields: []isa.Field{{Name: "x", Offset: wgX}, {Name: "taps", Offset: wgTaps}, {Name: "weights", Offset: wgWeights}}},
	{Folder: "conv/interleaved", Name: "pixelCopy", Fields: []isa.Field{{Name: "planes", Offset: icPlanes}, {Name: "plane", Offset: icPlane}, {Name: "at", Offset: icAt}, {Name: "table", Offset: icTable}, {Name: "blocks", Offset: icBlocks}, {Name: "back", Offset: icBack}, {Name: "mask", Offset: icMask}, {Name: "rest", Offset: icRest}, {Name: "ahead", Offset: icAhead}, {Name: "halves", Offset: icHalves}, {Name: "near", Offset: icNear}}},
	{Folder: "conv/interleaved", Name: "pixelSums", Fields: []isa.Field{{Name: "parts", Offset: isParts}, {Name: "count", Offset: isCount}, {Name: "pixels", Offset: isPixels}, {Name: "x", Offset: isX}, {Name: "list", Offset: isList}, {Name: "weights", Offset: isWeights}, {Name: "bias", Offset: isBias}, {Name: "y", Offset: isY}, {Name: "partAt", Offset: isPartAt}, {Name: "left", Offset: isLeft}}},
	{Folder: "conv/interleaved", Name: "pixelPairs", Fields: []isa.Field{{Name: "groups", Offset: iqGroups}, {Name: "pixels", Offset: iqPixels}, {Name: "x", Offset: iqX}, {Name: "taps", Offset: iqTaps}, {Name: "list", Offset: iqList}, {Name: "weights", Offset: iqWeights}, {Name: "bias", Offset: iqBias}, {Name: "y", Offset: iqY}, {Name: "weightNext", Offset: iqWeightNext}, {Name: "biasNext", Offset: iqBiasNext}, {Name: "yNext", Offset: iqYNext}}},
	{Folder: "conv/interleaved", Name: "part", Fields: []isa.Field{{Name: "pixelCount", Offset: ipPixelCount}, {Name: "pixels", Offset: ipPixels}, {Name: "y", Offset: ipY}, {Name: "taps", Offset: ipTaps}, {Name: "list", Offset: ipList}, {Name: "add", Offset: ipAdd}}},
	{Folder: "conv/interleaved", Name: "tap", Fields: []isa.Field{{Name: "x", Offset: itX}, {Name: "weight", Offset: itWeight}}},
	{Folder: "conv/interleaved", Name: "pixelDots", Fields: []isa.Field{{Name: "pixels", Offset: idPixels}, {Name: "table", Offset: idTable}, {Name: "dy", Offset: idDY}, {Name: "sums", Offset: idSums}, {Name: "pitch", Offset: idPitch}, {Name: "x", Offset: idX}, {Name: "dyNext", Offset: idDYNext}, {Name: "sumsNext", Offset: idSumsNext}}},
	{Folder: "conv/planes", Name: "smallPlanes", Fields: []isa.Field{
		{Name: "x", Offset: smX}, {Name: "y", Offset: smY}, {Name: "xImage", Offset: smXImage}, {Name: "yImage", Offset: smYImage}, {Name: "planes", Offset: smPlanes}, {Name: "xPlane", Offset: smXPlane}, {Name: "yPlane", Offset: smYPlane}, {Name: "taps", Offset: smTaps}, {Name: "table", Offset: smTable}, {Name: "weights", Offset: smWeights}, {Name: "weightsPlane", Offset: smWeightsPlane}, {Name: "bias", Offset: smBias}, {Name: "biasPlane", Offset: smBiasPlane}, {Name: "sums", Offset: smSums}, {Name: "maskX", Offset: smMaskX}, {Name: "maskY", Offset: smMaskY}, {Name: "xRow", Offset: smXRow}, {Name: "oddTaps", Offset: smOddTaps}, {Name: "rowMasks", Offset: smRowMasks}, {Name: "vectors", Offset: smVectors}, {Name: "parts", Offset: smParts},
	}},
	{Folder: "conv/thirds", Name: "thirdPlanes", Fields: []isa.Field{
		{Name: "planes", Offset: thPlanes}, {Name: "x", Offset: thX}, {Name: "y", Offset: thY}, {Name: "xPlane", Offset: thXPlane}, {Name: "yPlane", Offset: thYPlane}, {Name: "runs", Offset: thRuns}, {Name: "runCount", Offset: thRunCount}, {Name: "xStep", Offset: thXStep}, {Name: "yStep", Offset: thYStep}, {Name: "xRow", Offset: thXRow}, {Name: "masks", Offset: thMasks}, {Name: "orders", Offset: thOrders}, {Name: "weights", Offset: thWeights}, {Name: "weightsPlane", Offset: thWeightsPlane}, {Name: "bias", Offset: thBias}, {Name: "biasPlane", Offset: thBiasPlane}, {Name: "sums", Offset: thSums}, {Name: "sumsPlane", Offset: thSumsPlane}, {Name: "below", Offset: thBelow}, {Name: "belowVectors", Offset: thBelowVectors}, {Name: "xAt", Offset: thXAt}, {Name: "yAt", Offset: thYAt}, {Name: "weightsAt", Offset: thWeightsAt}, {Name: "biasAt", Offset: thBiasAt}, {Name: "sumsAt", Offset: thSumsAt}, {Name: "runsLeft", Offset: thRunsLeft},
	}},
	{Folder: "conv/thirds", Name: "thirdRun", Fields: []isa.Field{{Name: "x", Offset: tkX}, {Name: "y", Offset: tkY}, {Name: "masks", Offset: tkMasks}, {Name: "blocks", Offset: tkBlocks}}},
	{Folder: "conv/fours", Name: "fourPlanes", Fields: []isa.Field{
		{Name: "planes", Offset: fpPlanes}, {Name: "images", Offset: fpImages}, {Name: "x", Offset: fpX}, {Name: "y", Offset: fpY}, {Name: "image", Offset: fpImage}, {Name: "weights", Offset: fpWeights}, {Name: "bias", Offset: fpBias}, {Name: "biasPlane", Offset: fpBiasPlane}, {Name: "sums", Offset: fpSums},
	}},
	{Folder: "conv/planes", Name: "smallTap", Fields: []isa.Field{{Name: "order", Offset: stOrder}, {Name: "mask", Offset: stMask}, {Name: "at", Offset: stAt}}},
	{Folder: "conv/planes", Name: "spreadTap", Fields: []isa.Field{{Name: "order", Offset: snOrder}, {Name: "weights", Offset: snWeights}, {Name: "mask", Offset: snMask}}},
	{Folder: "conv/planes", Name: "spreadPart", Fields: []isa.Field{{Name: "taps", Offset: sgTaps}, {Name: "lanes", Offset: sgLanes}}},
	{Folder: "conv/geometry", Name: "RunCopy", Fields: []isa.Field{
		{Name: "Images", Offset: rcImages}, {Name: "Bands", Offset: rcBands}, {Name: "Rows", Offset: rcRows}, {Name: "Runs", Offset: rcRuns}, {Name: "Src", Offset: rcSrc}, {Name: "Dst", Offset: rcDst},
		{Name: "SrcSteps", Offset: rcSrcSteps}, {Name: "DstSteps", Offset: rcDstSteps}, {Name: "last", Offset: rcLast}, {Name: "vectors", Offset: rcVectors}, {Name: "bandsLeft", Offset: rcBandsLeft},
	}},
	{Folder: "conv/geometry", Name: "RunSteps", Fields: []isa.Field{{Name: "Image", Offset: rcImage}, {Name: "Band", Offset: rcBand}, {Name: "Row", Offset: rcRow}, {Name: "Run", Offset: rcRun}}},
	{Folder: "conv/geometry", Name: "PlaneCopy", Fields: []isa.Field{
		{Name: "Images", Offset: pcImages}, {Name: "Rows", Offset: pcRows}, {Name: "Vectors", Offset: pcVectors}, {Name: "Src", Offset: pcSrc}, {Name: "Dst", Offset: pcDst}, {Name: "Odd", Offset: pcOdd}, {Name: "SrcImage", Offset: pcSrcImage},
		{Name: "SrcRow", Offset: pcSrcRow}, {Name: "DstImage", Offset: pcDstImage}, {Name: "DstRow", Offset: pcDstRow}, {Name: "Tail", Offset: pcTail}, {Name: "Tail2", Offset: pcTail2}, {Name: "SrcPair", Offset: pcSrcPair}, {Name: "DstPair", Offset: pcDstPair},
	}},
	{Folder: "conv/geometry", Name: "tapRows", Fields: []isa.Field{
		{Name: "planes", Offset: twPlanes}, {Name: "rows", Offset: twRows}, {Name: "blocks", Offset: twBlocks}, {Name: "taps", Offset: twTaps}, {Name: "src", Offset: twSrc}, {Name: "dst", Offset: twDst}, {Name: "srcPlane", Offset: twSrcPlane}, {Name: "srcRow", Offset: twSrcRow},
		{Name: "dstPlane", Offset: twDstPlane}, {Name: "dstRow", Offset: twDstRow}, {Name: "tap", Offset: twTap}, {Name: "table", Offset: twTable}, {Name: "orders", Offset: twOrders}, {Name: "srcPlaneAt", Offset: twSrcPlaneAt}, {Name: "dstPlaneAt", Offset: twDstPlaneAt}, {Name: "last", Offset: twLast},
	}},
	{Folder: "conv/geometry", Name: "windowTaps", Fields: []isa.Field{
		{Name: "units", Offset: wnUnits}, {Name: "blocks", Offset: wnBlocks}, {Name: "overlap", Offset: wnOverlap}, {Name: "groups", Offset: wnGroups}, {Name: "src", Offset: wnSrc}, {Name: "dst", Offset: wnDst}, {Name: "srcUnit", Offset: wnSrcUnit}, {Name: "dstUnit", Offset: wnDstUnit},
		{Name: "tap", Offset: wnTap}, {Name: "places", Offset: wnPlaces}, {Name: "table", Offset: wnTable}, {Name: "blocksLeft", Offset: wnBlocksLeft},
	}},
	{Folder: "conv/geometry", Name: "tapGroup", Fields: []isa.Field{{Name: "src", Offset: tgSrc}, {Name: "dst", Offset: tgDst}}},
	{Folder: "conv/geometry", Name: "tapBlock", Fields: []isa.Field{{Name: "src", Offset: tbSrc}, {Name: "dst", Offset: tbDst}, {Name: "lanes", Offset: tbLanes}}},
	{Folder: "conv/winograd", Name: "transform", Fields: []isa.Field{
		{Name: "count", Offset: trCount}, {Name: "in", Offset: trIn}, {Name: "inRow", Offset: trInRow}, {Name: "inCol", Offset: trInCol}, {Name: "inStep", Offset: trInStep},
		{Name: "out", Offset: trOut}, {Name: "outRow", Offset: trOutRow}, {Name: "outCol", Offset: trOutCol}, {Name: "outStep", Offset: trOutStep}, {Name: "tmp", Offset: trTmp}, {Name: "part", Offset: trPart},
	}},
	{Folder: "conv/winograd", Name: "pointTile", Fields: []isa.Field{
		{Name: "count", Offset: ptCount}, {Name: "blocks", Offset: ptBlocks}, {Name: "steps", Offset: ptSteps}, {Name: "jump", Offset: ptJump}, {Name: "a", Offset: ptA}, {Name: "aStep", Offset: ptAStep},
		{Name: "b0", Offset: ptB0}, {Name: "b1", Offset: ptB1}, {Name: "c0", Offset: ptC0}, {Name: "c1", Offset: ptC1}, {Name: "cStep", Offset: ptCStep}, {Name: "add", Offset: ptAdd},
	}},
}
