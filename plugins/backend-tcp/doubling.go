package tcp

import "math/bits"

// doubling is the all-reduce by recursive doubling (Thakur, Rabenseifner and
// Gropp, Optimization of collective communication operations in MPICH, 2005):
// in round k a rank exchanges the whole buffer with the one whose rank
// differs in bit k. If the world size is not a power of two, some ranks
// first send their contribution to a neighbour, and receive the result at the end. Every
// segment passes through the rounds independently.
type doubling struct {
	b      *Backend
	buf    []byte
	n      int // segments
	rounds []doublingRound
	level  []int    // by segment: rounds that are done
	has    []uint64 // by segment, a bit for each round: the partner's bytes have arrived
	went   []uint64
}

// doublingRound is a round with one other rank.
type doublingRound struct {
	peer       int
	send, recv bool
	final      bool // what is received is the result
}

func (w *doubling) start(b *Backend, buf []byte) *doubling {
	w.b, w.buf, w.n = b, buf, ceilDiv(len(buf), b.set.segment)
	if w.rounds == nil {
		w.rounds = doublingRounds(b.group.Rank, b.group.WorldSize)
	}
	w.level, w.has, w.went = zeroed(w.level, w.n), zeroed(w.has, w.n), zeroed(w.went, w.n)
	b.room(len(w.rounds), b.set.segment)
	return w
}

func doublingRounds(me, n int) (rounds []doublingRound) {
	p := positionsOf(n)
	v := p.position(me)
	if v < 0 {
		return []doublingRound{{peer: me + 1, send: true}, {peer: me + 1, recv: true, final: true}}
	}
	if p.paired(me) {
		rounds = append(rounds, doublingRound{peer: me - 1, recv: true})
	}
	for bit := 1; bit < p.power; bit *= 2 {
		rounds = append(rounds, doublingRound{peer: p.rank(v ^ bit), send: true, recv: true})
	}
	if p.paired(me) {
		rounds = append(rounds, doublingRound{peer: me - 1, send: true})
	}
	return rounds
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
func (w *doubling) round(rank int, send bool) int {
	for k, r := range w.rounds {
		if r.peer == rank && (send && r.send || !send && r.recv) {
			return k
		}
	}
	return -1
}

func (w *doubling) frames(rank int) (out, in int) {
	if w.round(rank, true) >= 0 {
		out = w.n
	}
	if w.round(rank, false) >= 0 {
		in = w.n
	}
	return out, in
}

func (w *doubling) segment(s int) []byte { return piece(w.buf, s, w.b.set.segment) }

func (w *doubling) out(rank, s int) ([]byte, bool) {
	return w.segment(s), w.level[s] == w.round(rank, true)
}

func (w *doubling) in(rank, s int) ([]byte, bool) {
	k := w.round(rank, false)
	switch {
	case w.rounds[k].final:
		return w.segment(s), w.level[s] == k
	case s >= w.b.depth && w.level[s-w.b.depth] <= k: // the slot is in use
		return nil, false
	}
	return w.b.slot(k, s)[:len(w.segment(s))], true
}

func (w *doubling) sent(rank, s int) {
	w.went[s] |= 1 << w.round(rank, true)
	w.advance(s)
}

func (w *doubling) received(rank, s int) {
	w.has[s] |= 1 << w.round(rank, false)
	w.advance(s)
}

// advance ends rounds for a segment: its old bytes were sent, the partner's
// were received.
func (w *doubling) advance(s int) {
	for k := w.level[s]; k < len(w.rounds); k++ {
		r := w.rounds[k]
		if r.send && w.went[s]>>k&1 == 0 || r.recv && w.has[s]>>k&1 == 0 {
			return
		}
		if r.recv && !r.final {
			last := k == len(w.rounds)-1 || k == len(w.rounds)-2 && !w.rounds[k+1].recv
			w.b.merge(w.segment(s), w.b.slot(k, s)[:len(w.segment(s))], r.peer, last)
		}
		w.level[s]++
	}
}
