// Package lines computes depthwise convolutions of planes of one row or column by filters that lie along it, as those of audio and text
// are: results, also several of each channel, and weight gradients from vectors that are loaded once for many taps.
//
// It imports core/engine/kernel and core/engine/kernel/conv/geometry. Start with lines.go.
package lines
