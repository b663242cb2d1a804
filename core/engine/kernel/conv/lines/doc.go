// Package lines computes depthwise convolutions of planes of one row or column by filters that lie along it, as those of audio and text
// are: with vectors of any width from the row itself or a frame of zeros (lines.go, grad.go), and, where vectors have sixteen lanes, results by permutations
// of what is loaded once (window.go).
//
// It imports core/engine/kernel and core/engine/kernel/conv/geometry. Start with lines.go.
package lines
