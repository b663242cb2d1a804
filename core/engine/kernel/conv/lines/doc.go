// Package lines computes depthwise convolutions of planes of one row or column by filters that lie along it, as those of audio and text
// are: where vectors have sixteen lanes, results and weight gradients by permutations of what is loaded once (window.go), also of several outputs
// of each channel, and elsewhere with vectors of eight lanes, from the row itself or a frame of zeros (lines.go, grad.go).
//
// It imports core/engine/kernel and core/engine/kernel/conv/geometry. Start with lines.go.
package lines
