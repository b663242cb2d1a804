// Package shapes draws coloured shapes on coloured grounds, so that CIFAR-10's
// example runs where neither the files nor a network are at hand.
//
// An image shows one of ten shapes, of random size, place and colours, under
// noise. Everything is integer arithmetic on a counter-based generator: image i
// of a stream is the same bytes on every machine, whoever draws it and in
// whatever order. One image costs some 20 µs, so nobody keeps them.
//
// It imports plugins/datasets/vision. Start with shapes.go.
package shapes
