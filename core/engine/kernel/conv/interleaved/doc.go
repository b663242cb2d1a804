// Package interleaved computes depthwise convolutions of any stride, dilation, filter and number of outputs per channel
// from planes that are interleaved: a vector is one pixel of as many planes as it has lanes. Every tap of a filter then sees
// whole vectors, whatever its distance from the others, and no lanes are idle beside narrow or tiny images. What it costs is
// transposing all that is read and written.
//
// It imports core/engine/kernel, and below that conv/cost and conv/geometry. Start with interleaved.go.
package interleaved
