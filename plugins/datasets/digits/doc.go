// Package digits draws handwritten-looking digits, so that the MNIST example
// runs where neither the files nor a network are at hand.
//
// A digit is a few pen strokes: quadratic B-splines over control points of our
// own ([glyphs]), bent by jitter, placed by a random affine map, traced by a
// round pen of random width, then faded, scratched and covered with noise.
// Everything is integer arithmetic on a counter-based generator: image i of a
// stream is the same bytes on every machine, whoever draws it and in whatever
// order. One image costs a few microseconds, less than reading it would.
//
// It imports nothing else of this module. Start with digits.go.
package digits
