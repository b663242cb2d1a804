package rank

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// membership is which ranks of an elastic job work together. Ranks keep their number at
// the store, which is that of their place, whatever their rank in the group is.
type membership struct {
	epoch   int // counts groups, from 1
	members []int
	lost    map[int]departure // members that disconnected since the group was formed
	calls   map[int]call      // for the next group, by place
	missing func()            // called when the first member has come
}

// call is what a place that wants to be in the next group gives the others.
type call struct {
	request
	val []byte
}

// upTo are the numbers from 0 to n−1.
func upTo(n int) []int {
	l := make([]int, n)
	for i := range l {
		l[i] = i
	}
	return l
}

// lost is how a member of the group has left it.
func (b *state) lost(rank int) (departure, bool) {
	if b.group == nil {
		return departure{peer: b.names[rank]}, false
	}
	d, lost := b.group.lost[rank]
	if !lost {
		d.peer = b.names[rank]
	}
	return d, lost
}

// lose removes a rank from the group. Nobody else has to end.
func (b *state) lose(d departure) {
	rank := d.peer.Rank
	delete(b.group.calls, rank)
	if slices.Contains(b.group.members, rank) {
		b.group.lost[rank] = d
	}
	b.endGathers(d, false)
	b.regroup()
}

// callRegroup adds a place to the next group.
func (b *state) callRegroup(t request, val []byte) {
	g := b.group
	if g == nil {
		b.refuse(t, "this job's ranks do not change")
		return
	}
	g.calls[t.rank] = call{t, val}
	b.waits[t] = &wait{}
	b.regroup()
	if len(g.calls) > 0 && slices.Contains(g.members, t.rank) {
		g.missing()
	}
}

// absent are the members that are connected and have not come to the next group: at the
// beginning all places.
func (b *state) absent() (ranks []int) {
	members := b.group.members
	if b.group.epoch == 0 {
		members = upTo(b.size)
	}
	for _, r := range members {
		_, called := b.group.calls[r]
		if _, lost := b.group.lost[r]; !called && !lost && !b.gone[r] {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// regroup forms the next group as soon as nobody is absent: of the members in their
// order, and then the others who have come. So the first members have what the others need.
func (b *state) regroup() {
	g := b.group
	if g == nil || len(g.calls) == 0 || len(b.absent()) > 0 {
		return
	}
	var members []int
	for _, r := range append(slices.Clone(g.members), slices.Sorted(maps.Keys(g.calls))...) {
		if _, called := g.calls[r]; called && !slices.Contains(members, r) {
			members = append(members, r)
		}
	}
	var vals [][]byte
	for _, r := range members {
		vals = append(vals, g.calls[r].val)
	}
	calls := g.calls
	g.epoch, g.members, g.lost, g.calls = g.epoch+1, members, map[int]departure{}, map[int]call{}
	for _, c := range calls {
		b.end(c.request, frame{op: opOK, body: fields{}.number(int64(g.epoch)).numbers(members).list(vals)})
	}
}

// expect disconnects, after LostAfter, members that have not come to the next group.
func (s *Server) expect() {
	if s.opts.LostAfter <= 0 || s.expecting {
		return
	}
	s.expecting = true
	time.AfterFunc(s.opts.LostAfter, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.expecting = false
		if s.closed || len(s.state.group.calls) == 0 {
			return
		}
		for _, r := range s.state.absent() {
			if c := s.peers[r]; c != nil {
				c.Close() // which makes it leave
			}
		}
	})
}

// Members are the ranks that this one works with in an elastic job. They belong to one
// goroutine, but for Gather.
type Members struct {
	client *Client
	place  int
	epoch  int
	places []int
}

// NewMembers are those of a rank whose place is its number at the store; there are none
// before the first Regroup.
func NewMembers(c *Client, place int) *Members { return &Members{client: c, place: place} }

// Regroup waits until all members that are left, and those that want to come, have called
// it: they are the members from now on, those of before first and in their order. It
// returns what each has given, by rank.
func (m *Members) Regroup(ctx context.Context, mine []byte) ([][]byte, error) {
	p, err := m.client.call(ctx, Progress{Op: "regroup"}, opRegroup, fields{}.bytes(mine))
	if err != nil {
		return nil, err
	}
	epoch, places, all := p.small(), p.numbers(), p.list()
	if err := p.end(); err != nil {
		return nil, err
	}
	if len(places) != len(all) || !slices.Contains(places, m.place) {
		return nil, fmt.Errorf("regroup: %w", errFrame)
	}
	m.epoch, m.places = epoch, places
	return all, nil
}

// Rank and Size are this rank's place among the members.
func (m *Members) Rank() int { return slices.Index(m.places, m.place) }
func (m *Members) Size() int { return len(m.places) }

// Places are the members' numbers at the store, by rank.
func (m *Members) Places() []int { return slices.Clone(m.places) }

// Gather is Store.Gather of the members. It fails with a *PeerLeftError as soon as one
// of them is gone.
func (m *Members) Gather(ctx context.Context, name string, mine []byte) ([][]byte, error) {
	c, name := m.client, fmt.Sprintf("%d/%s", m.epoch, name)
	round := fmt.Sprintf("%s#%d", name, c.nextRound(name))
	p, err := c.call(ctx, Progress{Op: "gather", Key: name}, opGatherAmong, fields{}.text(round).numbers(m.places).bytes(mine))
	if err != nil {
		return nil, err
	}
	all := p.list()
	return all, p.end()
}
