// Package planes computes depthwise convolutions plane by plane: planes of one row or column along it (package lines); where vectors of sixteen lanes are computed whole, with square filters of 3,
// 5 or 7 (wide.go, with strides of 2 and 3 wide_strided.go), all of planes or results that are one vector (small.go), and input gradients of some vectors from dy that is one (spread.go); elsewhere
// with filters of 3, 5 or 7 rows and stride 1 (tiles.go; 3×3 of larger planes slide.go), and with stride 2 of 5×5 or 7×7 (tiles.go), of 3×3, and input gradients of all three (strided.go), straight from the image; some with a stride of three columns by package thirds, planes of 4×4 with 3×3 and 5×5 by package fours;
// where every output sees every input as products of small matrices
// (across.go), and all others from frames (planes.go). It computes weight gradients of all other convolutions from planes
// that lie side by side (dense.go).
//
// It imports core/engine/kernel, and below that elementwise, gemm, reduce, conv/cost, conv/fours, conv/geometry, conv/lines and conv/thirds. Start with planes.go.
package planes
