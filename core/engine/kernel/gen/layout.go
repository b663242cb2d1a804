package main

import (
	"bytes"
	"fmt"
	source "go/format"
	"os"
	"path"
	"path/filepath"
)

// field is a field of a struct, and the offset at which the assembly reads it.
type field struct {
	name   string
	offset int
}

// layout is a struct that assembly of a folder's package reads.
type layout struct {
	folder, name string
	fields       []field
}

var layouts = []layout{
	{"gemm", "Tile", []field{
		{"K", tileK}, {"A", tileA}, {"B0", tileB0}, {"B1", tileB1}, {"Off", tileOff}, {"C0", tileC0}, {"C1", tileC1},
		{"Ldc", tileLdc}, {"N0", tileN0}, {"N1", tileN1}, {"Bias", tileBias}, {"Add", tileAdd},
	}},
	{"gemm", "strip", []field{
		{"k", stripK}, {"tiles", stripTiles}, {"a", stripA}, {"aStep", stripAStep}, {"aNext", stripANext}, {"b", stripB}, {"bStep", stripBStep},
		{"c", stripC}, {"ldc", stripLdc}, {"n0", stripN0}, {"n1", stripN1}, {"gate", stripGate}, {"bias", stripBias},
		{"biasNext", stripBiasNext}, {"add", stripAdd}, {"floor", stripFloor},
	}},
	{"conv/direct", "dotTile", []field{{"count", dotCount}, {"steps", dotSteps}, {"dy", dotDY}, {"stride", dotStride}, {"x", dotX}, {"out", dotOut}}},
	{"conv/direct", "dotStep", []field{{"dy", 0}, {"x", 4}, {"lanes", 8}}},
	{"conv/planes", "planeTile", []field{
		{"images", plImages}, {"xImage", plXImage}, {"yImage", plYImage}, {"groups", plGroups}, {"xGroup", plXGroup}, {"yGroup", plYGroup},
		{"taps", plTaps}, {"off", plOff}, {"weights", plWeights}, {"bias", plBias}, {"x", plX}, {"y", plY}, {"xStep", plXStep}, {"yStep", plYStep},
	}},
	{"conv/planes", "planeDots", []field{
		{"images", pdImages}, {"rows", pdRows}, {"vectors", pdVectors}, {"xNext", pdXNext}, {"xImage", pdXImage}, {"dyNext", pdDYNext},
		{"dyImage", pdDYImg}, {"dy", pdDY}, {"out", pdOut}, {"x", pdX},
	}},
	{"conv/planes", "planeCopy", []field{
		{"images", pcImages}, {"rows", pcRows}, {"vectors", pcVectors}, {"src", pcSrc}, {"dst", pcDst}, {"odd", pcOdd}, {"srcImage", pcSrcImage},
		{"srcRow", pcSrcRow}, {"dstImage", pcDstImage}, {"dstRow", pcDstRow}, {"tail", pcTail}, {"tail2", pcTail2},
	}},
	{"conv/winograd", "transform", []field{
		{"count", trCount}, {"in", trIn}, {"inRow", trInRow}, {"inCol", trInCol}, {"inStep", trInStep},
		{"out", trOut}, {"outRow", trOutRow}, {"outCol", trOutCol}, {"outStep", trOutStep}, {"tmp", trTmp}, {"part", trPart},
	}},
	{"conv/winograd", "pointTile", []field{
		{"count", ptCount}, {"blocks", ptBlocks}, {"steps", ptSteps}, {"jump", ptJump}, {"a", ptA}, {"aStep", ptAStep},
		{"b0", ptB0}, {"b1", ptB1}, {"c0", ptC0}, {"c1", ptC1}, {"cStep", ptCStep}, {"add", ptAdd},
	}},
	{"pool", "poolTile", []field{
		{"rows", poolRows}, {"x", poolX}, {"stride", poolStride}, {"y", poolY}, {"idx", poolIdx}, {"outStride", poolOut},
		{"lo", poolLo}, {"hi", poolHi}, {"n", poolN}, {"at", poolAt}, {"w", poolW}, {"evens", poolEvens},
		{"mean", poolMean}, {"scale", poolScale}, {"shift", poolShift},
	}},
	{"norm", "poolGradTile", []field{
		{"rows", pgRows}, {"x", pgX}, {"stride", pgStride}, {"dy", pgDY}, {"y", pgY}, {"idx", pgIdx}, {"outStride", pgOut},
		{"n", pgN}, {"last", pgLast}, {"counts", pgCounts}, {"mean", pgMean}, {"meanDy", pgMeanDY}, {"slope", pgSlope}, {"scale", pgScale},
		{"dx", pgDX}, {"sum", pgSum}, {"dot", pgDot}, {"lane", pgLane}, {"place", pgPlace},
	}},
	{"norm", "poolGradStrip", []field{
		{"rows", psRows}, {"x", psX}, {"width", psWidth}, {"dy", psDY}, {"y", psY}, {"idx", psIdx}, {"outStride", psOut}, {"dx", psDX},
		{"from", psFrom}, {"n", psN}, {"left", psLeft}, {"right", psRight}, {"mean", psMean}, {"meanDy", psMeanDY}, {"slope", psSlope},
		{"scale", psScale}, {"sum", psSum}, {"dot", psDot}, {"ahead", psAhead}, {"outAhead", psOutAhead}, {"step", psStep}, {"place", psPlace},
	}},
	{"norm", "halfPool", []field{
		{"rows", hpRows}, {"x", hpX}, {"stride", hpStride}, {"second", hpSecond}, {"y", hpY}, {"idx", hpIdx}, {"out", hpOut},
		{"load", hpLoad}, {"store", hpStore}, {"last", hpLast}, {"lastStore", hpLastStore}, {"mean", hpMean}, {"scale", hpScale},
		{"shift", hpShift}, {"sign", hpSign}, {"width", hpWidth}, {"base", hpBase}, {"next", hpNext}, {"upper", hpUpper}, {"lower", hpLower},
	}},
	{"norm", "halfPoolGrad", []field{
		{"rows", hgRows}, {"x", hgX}, {"stride", hgStride}, {"second", hgSecond}, {"y", hgY}, {"dy", hgDY}, {"idx", hgIdx}, {"out", hgOut},
		{"load", hgLoad}, {"n", hgN}, {"dx", hgDX}, {"mean", hgMean}, {"slope", hgSlope}, {"offset", hgOffset}, {"scale", hgScale},
		{"width", hgWidth}, {"next", hgNext}, {"sum", hgSum}, {"dot", hgDot}, {"lane", hgLane}, {"place", hgPlace},
	}},
	{"optimizer", "adamStep", []field{
		{"p", adamP}, {"grad", adamGrad}, {"m", adamM}, {"v", adamV}, {"n", adamN},
		{"shrink", adamConstants}, {"decay", adamConstants + 4}, {"w1", adamConstants + 8}, {"w2", adamConstants + 12},
		{"b2", adamConstants + 16}, {"stepSize", adamConstants + 20}, {"rootScale", adamConstants + 24}, {"eps", adamConstants + 28},
	}},
}

// writeLayouts makes a package that does not compile if a struct is not laid out as
// the assembly reads it.
func writeLayouts(dir string) error {
	files := map[string]*bytes.Buffer{}
	for _, l := range layouts {
		b := files[l.folder]
		if b == nil {
			b = &bytes.Buffer{}
			fmt.Fprintf(b, "// Code generated by command: gen. DO NOT EDIT.\n\npackage %s\n\nimport \"unsafe\"\n", path.Base(l.folder))
			files[l.folder] = b
		}
		fmt.Fprintf(b, "\n// The offsets at which the assembly reads %s: each index is 0.\nvar (\n", l.name)
		for _, f := range l.fields {
			fmt.Fprintf(b, "\t_ = [1]byte{}[unsafe.Offsetof(%s{}.%s)-%d]\n", l.name, f.name, f.offset)
		}
		b.WriteString(")\n")
	}
	for folder, b := range files {
		text, err := source.Source(b.Bytes())
		if err != nil {
			return err
		}
		for _, arch := range []string{"amd64", "arm64"} {
			if err := os.WriteFile(filepath.Join(dir, folder, "zz_layout_"+arch+".go"), text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
