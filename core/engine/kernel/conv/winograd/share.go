package winograd

import "github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"

// Team is a convolution of float32 images that threads compute together. Threads that share
// images evaluate all filters each, which for many channels of small images takes a fifth
// of the time. In a team each thread evaluates a part of the input's channels, and when
// all of them are done, it computes a part of the result's channels from the whole input:
// nothing is evaluated twice. For each group of tiles, all parts of Read come before the
// first of Write.
type Team struct {
	members []call[float32]
	weights bool
}

// NewTeam returns the team for a direction; nil where threads do better to share images,
// because they evaluate filters at most a quarter more often than one thread does: a team
// waits for its members twice in a group, and reads what lies in another core's cache.
func NewTeam(p *geometry.Shape, d geometry.Direction, threads int) *Team {
	whole := newCall[float32](p, d == geometry.ToInput)
	if threads < 2 || whole.groupCount > 1 || whole.once || whole.to < threads*blockTo || whole.to != whole.outs { // members would write the same channels
		return nil
	}
	part := *p
	evaluations := 0
	for i := range threads {
		if part.N = p.N*(i+1)/threads - p.N*i/threads; part.N > 0 {
			c := newCall[float32](&part, d == geometry.ToInput)
			evaluations += c.groups()
		}
	}
	if 4*evaluations <= 5*whole.groups() {
		return nil
	}
	whole.packed = d != geometry.ToWeight
	t := &Team{members: make([]call[float32], threads), weights: d == geometry.ToWeight}
	blocks := whole.to / channelLanes
	for i := range t.members {
		c := whole
		c.first = blocks * i / threads * channelLanes
		c.to = blocks*(i+1)/threads*channelLanes - c.first
		t.members[i] = c
	}
	return t
}

// Groups is how many groups of tiles there are.
func (t *Team) Groups() int { return t.members[0].groups() }

// Scratch is the number of scratch elements of all members together.
func (t *Team) Scratch() int {
	c := &t.members[0]
	shared, own := c.blockElems(c.from/channelLanes), c.ownElems()
	if t.weights {
		return shared + c.blockElems(c.all/channelLanes) + len(t.members)*own
	}
	return shared + len(t.members)*(c.blockElems(c.toBlock/channelLanes)+own)
}

// Reserve gives the team its scratch memory, which it has to itself only from the first
// Read of a call to the last Write.
func (t *Team) Reserve(scratch []float32) {
	c := &t.members[0]
	data := cut(&scratch, c.blockElems(c.from/channelLanes))
	var gradients []float32
	if t.weights {
		gradients = cut(&scratch, c.blockElems(c.all/channelLanes))
	}
	for i := range t.members {
		m := &t.members[i]
		if m.data, m.products = data, gradients; !t.weights {
			m.products = cut(&scratch, m.blockElems(m.toBlock/channelLanes))
		}
		m.own(&scratch)
	}
}

// Read evaluates a member's part of a group of tiles of x, or of dy in the direction to
// the input, and of dy in that to the weights.
func (t *Team) Read(member, group int, x, dy []float32) {
	c, parts := &t.members[member], len(t.members)
	if group == 0 {
		clear(c.frame)
		clear(c.lanes)
	}
	if t.weights {
		c.readBoth(x, dy, group, member, parts)
		return
	}
	blocks := c.from / channelLanes
	c.readImages(x, group, blocks*member/parts, blocks*(member+1)/parts)
}

// Write computes a member's channels of y, or of dx, for a group; bias may be nil.
func (t *Team) Write(member, group int, w, bias, y []float32) {
	t.members[member].convolve(Filters[float32]{Own: w}, bias, y, group)
}

// WriteWeights writes or adds a group's part of the gradient to a member's filters in dw.
func (t *Team) WriteWeights(member, group int, dw []float32, accumulate bool) {
	t.members[member].correlate(dw, group, accumulate)
}
