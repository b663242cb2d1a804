// Package layout decides how the images of a plan lie in a device's memory: as planes of one channel each, or
// with the channels of a pixel side by side. It is one mechanism for all devices, each of which says what a layout
// saves it. It starts in layout.go.
//
// It imports core/tensor, core/engine/graph, core/engine/op and core/engine/plan.
package layout
