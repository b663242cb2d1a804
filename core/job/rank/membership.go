package rank

import (
	"cmp"
	"encoding/json"
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
	ended   bool              // all members have reached the end of the run
	calls   map[int]call      // for the next group, by place

	least   int              // fewer members wait for others, see StoreOptions.Least
	passed  bool             // the wait for others is over
	after   func(delay, int) // calls state.waited after a delay, if the epoch is still that
	absents func()           // called when the first member has come
}

// Entry says why a rank calls Regroup.
type Entry int

const (
	Starting Entry = iota // it begins the run with all others
	Joining               // it is new in a run that has begun, and ready to receive its state
	Broken                // its group has failed
	Between               // it is between two steps and admits others
	Ended                 // it is at the end of the run
)

// delay is what a membership waits for.
type delay int

const (
	forMore  delay = iota // others may still start with the first group
	forLeast              // enough for the next group
	forJoins              // others may join at the same time
	delays                // how many kinds there are
)

// call is the message by which a rank asks to be in the next group.
type call struct {
	request
	entry Entry
	val   []byte
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
	g, rank := b.group, d.peer.Rank
	if slices.Contains(g.members, rank) {
		g.lost[rank] = d
		b.announceBroken()
	}
	b.endGathers(d, false)
	b.regroup()
}

// deserts reports whether a rank that leaves by itself is still needed: it has failed.
func (b *state) deserts(rank int) bool {
	return !b.group.ended && slices.Contains(b.group.members, rank)
}

// announceBroken tells the members that have not called that their group has failed, and whether it has lost a member: they
// may wait in it for one that is silent.
func (b *state) announceBroken() {
	for _, r := range b.absent() {
		b.reply(request{rank: r}, brokenGroup(b.group.epoch, len(b.group.lost) > 0))
	}
}

// endBrokenGathers ends the gathers that wait for a member whose group has failed: it will not come.
func (b *state) endBrokenGathers(rank int) {
	for t, w := range b.waits {
		if g := w.gather; g != nil && slices.Contains(g.members, rank) && g.vals[rank] == nil {
			b.end(t, brokenFrame(g.name, rank))
		}
	}
}

// broken reports whether a member waits for the next group because this one has failed.
func (b *state) broken(rank int) bool {
	if b.group == nil {
		return false
	}
	c, called := b.group.calls[rank]
	return called && c.entry == Broken
}

// brokenGroup announces that the group of an epoch has failed.
func brokenGroup(epoch int, lost bool) frame {
	return frame{op: opBroken, body: fields{}.number(int64(epoch)).flag(lost)}
}

func brokenFrame(name string, rank int) frame {
	return frame{op: opError, body: fields{}.text(fmt.Sprintf("%q: the group has failed on rank %d, which waits for the next one", name, rank))}
}

// announceJoins tells the members that others wait to be admitted.
func (b *state) announceJoins() {
	for _, r := range b.absent() {
		b.reply(request{rank: r}, frame{op: opWanted, body: fields{}.number(int64(b.group.epoch))})
	}
}

// callRegroup adds a place to the next group.
func (b *state) callRegroup(t request, e Entry, val []byte) {
	g := b.group
	switch {
	case g == nil:
		b.refuse(t, "this job's ranks do not change")
		return
	case e != Joining && g.epoch > 0 && (e == Starting || !slices.Contains(g.members, t.rank)): // it must first make itself ready, or the others have gone on without it
		b.ok(t, formed(0, 0, nil, nil, nil))
		return
	}
	if e != Joining {
		delete(g.lost, t.rank) // it was only disconnected
	}
	g.calls[t.rank] = call{t, e, val}
	b.waits[t] = &wait{}
	if e == Broken {
		b.announceBroken()
		b.endBrokenGathers(t.rank)
	}
	epoch := g.epoch
	b.regroup()
	switch {
	case g.epoch != epoch || len(g.calls) == 0:
	case e == Ended: // others may still save what all have computed
	case e == Starting && len(g.calls) == g.least:
		g.after(forMore, epoch)
	case e == Joining:
		g.after(forJoins, epoch)
	case slices.Contains(g.members, t.rank):
		g.absents()
	}
}

// absent are the members that are connected and have not come to the next group.
func (b *state) absent() (ranks []int) {
	for _, r := range b.group.members {
		_, called := b.group.calls[r]
		if _, lost := b.group.lost[r]; !called && !lost && !b.gone[r] {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// regroup forms the next group as soon as no member is absent: of the members in their
// order, and then those who join. So the first members have what the others need.
func (b *state) regroup() {
	g := b.group
	if g == nil || len(g.calls) == 0 {
		return
	}
	if g.epoch == 0 {
		if len(g.calls) == b.size || g.passed && len(g.calls) >= g.least {
			b.form(slices.Sorted(maps.Keys(g.calls)), false)
		}
		return
	}
	if len(b.absent()) > 0 {
		return
	}
	var members []int
	admit, ended := true, true
	for _, r := range g.members {
		if c, called := g.calls[r]; called && c.entry != Joining {
			members, admit, ended = append(members, r), admit && c.entry == Between, ended && c.entry == Ended
		}
	}
	switch {
	case len(members) == 0:
		b.refuseJoins()
		return
	case admit:
		members = append(members, b.joining()...)
		if len(members) < g.least && !g.passed {
			g.after(forLeast, g.epoch)
			return
		}
	}
	b.form(members, ended)
}

// joining are the places that wait to be admitted.
func (b *state) joining() (places []int) {
	for _, r := range slices.Sorted(maps.Keys(b.group.calls)) {
		if b.group.calls[r].entry == Joining {
			places = append(places, r)
		}
	}
	return places
}

// refuseJoins answers those that wait to join a group that has no members left.
func (b *state) refuseJoins() {
	epoch := overEpoch
	if len(b.group.lost) == len(b.group.members) {
		epoch = noModelEpoch
	}
	for _, r := range b.joining() {
		c := b.group.calls[r]
		delete(b.group.calls, r)
		b.end(c.request, frame{op: opOK, body: formed(epoch, 0, nil, nil, nil)})
	}
}

// Instead of the number of a group: why there is none to join.
const (
	overEpoch    = -1 // the members have ended
	noModelEpoch = -2 // all members were lost
)

// form makes a group of places that have called.
func (b *state) form(members []int, ended bool) {
	g := b.group
	var vals, left [][]byte
	for _, r := range members {
		vals = append(vals, g.calls[r].val)
	}
	for _, r := range slices.Sorted(maps.Keys(g.lost)) {
		d := g.lost[r]
		left = append(left, []byte((&PeerLeftError{Peer: d.peer, Cause: d.why}).Error()))
	}
	g.epoch, g.members, g.lost, g.passed = g.epoch+1, members, map[int]departure{}, false
	g.ended = ended
	b.recordGroup()
	body := formed(g.epoch, g.least, members, vals, left)
	for _, r := range members {
		c := g.calls[r]
		delete(g.calls, r)
		delete(b.gone, r)
		b.end(c.request, frame{op: opOK, body: body})
	}
	if len(b.joining()) > 0 {
		b.announceJoins()
	}
}

// recordGroup keeps the current group in the journal.
func (b *state) recordGroup() {
	if b.record == nil {
		return
	}
	r := groupRecord{Epoch: b.group.epoch, Ended: b.group.ended}
	for _, m := range b.group.members {
		p := b.names[m]
		p.Rank = m
		r.Members = append(r.Members, p)
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic("rank: " + err.Error())
	}
	b.record(groupKey, text)
}

// formed is the answer to Regroup: a group, how many it needs, what each has given, and how
// members of the last one were lost.
func formed(epoch, least int, members []int, vals, lost [][]byte) fields {
	return fields{}.number(int64(epoch)).number(int64(least)).numbers(members).list(vals).list(lost)
}

// enough forms the next group as it is, although it has fewer members than the least.
func (b *state) enough(t request) {
	if g := b.group; g != nil && g.epoch > 0 {
		g.passed = true
		b.regroup()
	}
	b.ok(t, nil)
}

// waited is called when a delay of an epoch has passed.
func (b *state) waited(d delay, epoch int) {
	g := b.group
	switch {
	case g.epoch != epoch:
	case d == forJoins:
		if len(b.joining()) > 0 {
			b.announceJoins()
		}
	default:
		g.passed = true
		b.regroup()
	}
}

// joinPause is how long others may take to join at the same time.
const joinPause = 100 * time.Millisecond

// running is a delay of an epoch that has not passed yet.
type running struct {
	epoch int
	timer *time.Timer
}

// after calls the state when a delay has passed since its first call for the epoch. The state calls it
// under the server's lock.
func (s *Server) after(d delay, epoch int) {
	if r := s.delays[d]; r != nil && r.epoch == epoch {
		return
	} else if r != nil {
		r.timer.Stop()
	}
	pause := [...]time.Duration{forMore: s.opts.Window, forLeast: s.opts.WaitForLeast, forJoins: joinPause}[d]
	now := &running{epoch: epoch}
	now.timer = time.AfterFunc(pause, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed || s.delays[d] != now {
			return
		}
		s.delays[d] = nil
		s.state.waited(d, epoch)
	})
	s.delays[d] = now
}

// expect disconnects, after LateAfter, members that have not come to the next group. They do answer: ones that
// are silent are disconnected earlier. The state calls it under the server's lock.
func (s *Server) expect() {
	epoch, limit := s.state.group.epoch, cmp.Or(s.opts.LateAfter, s.opts.LostAfter)
	if limit <= 0 || s.expecting == epoch {
		return
	}
	s.expecting = epoch
	time.AfterFunc(limit, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed || s.expecting != epoch {
			return
		}
		s.expecting = 0
		if s.state.group.epoch != epoch || !s.state.came() {
			return
		}
		for _, r := range s.state.absent() {
			if c := s.peers[r]; c != nil {
				c.Close() // which makes it leave
			}
		}
	})
}

// came reports whether a member has asked for another group.
func (b *state) came() bool {
	return slices.ContainsFunc(b.group.members, func(r int) bool { _, called := b.group.calls[r]; return called })
}
