package tcp

import (
	"math/bits"
	"slices"
)

// whole is an all-reduce in rounds in which ranks send each other the whole buffer: recursive
// doubling, or a tree. Every segment passes through the rounds independently.
type whole struct {
	b      *Backend
	buf    []byte
	n      int // segments
	rounds []wholeRound
	level  []int    // by segment: rounds that are done
	has    []uint64 // by segment, a bit for each round: the partner's bytes have arrived
	went   []uint64
}

// wholeRound is a round with one other rank.
type wholeRound struct {
	peer       int
	send, recv bool
	final      bool // what is received is the result
}

// start begins an all-reduce with the rounds of an algorithm.
func (w *whole) start(b *Backend, buf []byte, rounds func(me, n int) []wholeRound) *whole {
	w.b, w.buf, w.n = b, buf, ceilDiv(len(buf), b.set.segment)
	if w.rounds == nil {
		w.rounds = rounds(b.topology.me, b.topology.hosts())
	}
	w.level, w.has, w.went = zeroed(w.level, w.n), zeroed(w.has, w.n), zeroed(w.went, w.n)
	b.room(len(w.rounds), b.set.segment)
	return w
}

// doublingRounds are those of recursive doubling (Thakur, Rabenseifner and
// Gropp, Optimization of collective communication operations in MPICH, 2005):
// in round k a rank exchanges the buffer with the one whose rank
// differs in bit k. If the world size is not a power of two, some ranks
// first send their contribution to a neighbour, and receive the result at the end.
func doublingRounds(me, n int) (rounds []wholeRound) {
	p := positionsOf(n)
	v := p.position(me)
	if v < 0 {
		return []wholeRound{{peer: me + 1, send: true}, {peer: me + 1, recv: true, final: true}}
	}
	if p.paired(me) {
		rounds = append(rounds, wholeRound{peer: me - 1, recv: true})
	}
	for bit := 1; bit < p.power; bit *= 2 {
		rounds = append(rounds, wholeRound{peer: p.rank(v ^ bit), send: true, recv: true})
	}
	if p.paired(me) {
		rounds = append(rounds, wholeRound{peer: me - 1, send: true})
	}
	return rounds
}

// treeRounds are those of a binomial tree (the same paper): a rank adds the sums of its children to
// its own contribution and sends the sum to its parent, whose rank lacks the lowest bit of its own.
// Rank 0 has the result, which is sent back the same way.
func treeRounds(me, n int) (rounds []wholeRound) {
	var down []wholeRound
	for bit := 1; bit < n; bit *= 2 {
		if me&bit != 0 {
			rounds = append(rounds, wholeRound{peer: me - bit, send: true}, wholeRound{peer: me - bit, recv: true, final: true})
			break
		}
		if child := me + bit; child < n {
			rounds = append(rounds, wholeRound{peer: child, recv: true})
			down = append(down, wholeRound{peer: child, send: true})
		}
	}
	slices.Reverse(down) // the child with the most descendants first
	return append(rounds, down...)
}

// positions maps ranks to a power of two positions. The first 2·extra ranks form pairs:
// the even rank has no position, and its right neighbour adds its contribution.
type positions struct{ power, extra int }

func positionsOf(n int) positions {
	power := 1 << (bits.Len(uint(n)) - 1)
	return positions{power, n - power}
}

func (p positions) paired(rank int) bool { return rank < 2*p.extra }

// position returns -1 for a rank that has none.
func (p positions) position(rank int) int {
	switch {
	case !p.paired(rank):
		return rank - p.extra
	case rank%2 == 0:
		return -1
	}
	return rank / 2
}

func (p positions) rank(position int) int {
	if position < p.extra {
		return 2*position + 1
	}
	return position + p.extra
}

// round finds the one round that sends to, or receives from, a rank; -1 if
// there is none.
func (w *whole) round(peer int, send bool) int {
	for k, r := range w.rounds {
		if r.peer == peer && (send && r.send || !send && r.recv) {
			return k
		}
	}
	return -1
}

func (w *whole) frames(peer int) (out, in int) {
	if w.round(peer, true) >= 0 {
		out = w.n
	}
	if w.round(peer, false) >= 0 {
		in = w.n
	}
	return out, in
}

func (w *whole) segment(s int) []byte { return piece(w.buf, s, w.b.set.segment) }

func (w *whole) out(peer, s int) ([]byte, bool) {
	return w.segment(s), w.level[s] == w.round(peer, true)
}

func (w *whole) in(peer, s int) ([]byte, bool) {
	k := w.round(peer, false)
	switch {
	case w.rounds[k].final:
		return w.segment(s), w.level[s] == k
	case s >= w.b.depth && w.level[s-w.b.depth] <= k: // the slot is in use
		return nil, false
	}
	return w.b.slot(k, s)[:len(w.segment(s))], true
}

func (w *whole) sent(peer, s int) {
	w.went[s] |= 1 << w.round(peer, true)
	w.advance(s)
}

func (w *whole) received(peer, s int) {
	w.has[s] |= 1 << w.round(peer, false)
	w.advance(s)
}

// advance ends rounds for a segment: its old bytes were sent, the partner's
// were received.
func (w *whole) advance(s int) {
	for k := w.level[s]; k < len(w.rounds); k++ {
		r := w.rounds[k]
		if r.send && w.went[s]>>k&1 == 0 || r.recv && w.has[s]>>k&1 == 0 {
			return
		}
		if r.recv && !r.final {
			last := !slices.ContainsFunc(w.rounds[k+1:], func(r wholeRound) bool { return r.recv })
			w.b.merge(w.segment(s), w.b.slot(k, s)[:len(w.segment(s))], r.peer, last)
		}
		w.level[s]++
	}
}
