// Package shapes draws coloured shapes on coloured backgrounds, so that the CIFAR-10
// example runs without the files and without a network.
//
// An image shows one of ten shapes with random size, position, colours and noise.
// Everything is integer arithmetic on a counter-based generator: image i of a stream
// has the same bytes on every machine and in any order of drawing. An image takes
// about 20 µs, so images are not kept.
//
// It imports plugins/datasets/vision. Start with shapes.go.
package shapes
