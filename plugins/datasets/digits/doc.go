// Package digits draws digits that look handwritten, so that the MNIST example runs
// without the files and without a network.
//
// A digit is a few pen strokes: quadratic B-splines over control points of our
// own ([glyphs]), bent by jitter, placed by a random affine map, traced by a
// round pen of random width, then faded, scratched and covered with noise.
// Everything is integer arithmetic on a counter-based generator: image i of a
// stream has the same bytes on every machine and in any order of drawing. An image
// takes a few microseconds, less than reading it.
//
// It imports nothing else of this module. Start with digits.go.
package digits
