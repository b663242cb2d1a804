// Package tiled computes convolutions of bfloat16 images by products of tiles (AMX), with float32 sums.
//
// Images lie in frames, one behind the other and with rows one behind the other, with as many zeros between as filters look
// beyond an edge: the zeros after a row are those before the next. So neighbouring outputs, across the ends of rows and of images,
// are neighbours in the frame for every tap (a stride splits it by phases, in which they are), and what is computed between rows is left out when results are written.
//
// An output is Σ w·x over taps and channels. The frame of a forward pass has pairs of channels, as a tile of B wants them: its
// rows are planes of the frame, of which a tap is a distance. A weight gradient is a sum over pixels: rows of a tile of A are planes of
// x, where a tap is a distance again, and dy is turned, so that pairs of its pixels are rows of B.
//
// It imports core/engine/kernel and its packages amx, gemm, elementwise, conv/cost and conv/geometry. Start with frame.go.
package tiled
