package winograd

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// Divides reports whether threads should share a direction by channels of its result
// rather than by images. Threads that share images evaluate all filters each, and those
// that share channels all images: so it depends on which of the two are fewer.
func Divides(p *geometry.Shape, d geometry.Direction, threads int) bool {
	if picks(p) {
		return false
	}
	h, w, channels := p.OutH(), p.OutW(), p.K
	if d == geometry.ToInput {
		h, w, channels = p.H, p.W, p.C
	}
	tiles := p.N * kernel.CeilDiv(h, outputSide) * kernel.CeilDiv(w, outputSide)
	return channels >= threads*blockTo && tiles < channels
}

// Share is one of a number of shares of the channels of a direction's result.
func Share(p geometry.Shape, d geometry.Direction, parts, part int) geometry.Shape {
	count := &p.K
	if d == geometry.ToInput {
		count = &p.C
	}
	all, blocks := *count, *count/channelLanes
	first := blocks * part / parts * channelLanes
	p.Channels = geometry.Channels{First: first, All: all}
	*count = blocks*(part+1)/parts*channelLanes - first
	return p
}
