package tcp

// halving is the all-reduce by recursive halving and doubling (Rabenseifner,
// Optimization of collective reduction operations, 2004): partners exchange
// halves of what each is responsible for, until every rank has the sum of one
// piece; then the rounds run in reverse and gather the pieces. A
// rank moves as many bytes as in a ring in fewer rounds. If the
// world size is not a power of two, ranks pair up as in doubling.
type halving struct {
	b      *Backend
	rounds []halvingRound
	now    int // the round that runs
	left   int // frames until it is over
}

// halvingRound is a round with one other rank.
type halvingRound struct {
	peer       int
	send, recv []byte // parts of the buffer, nil for none
	reduce     bool   // what is received is added, for the last time if last
	last       bool
}

func (w *halving) start(b *Backend, buf []byte) *halving {
	w.b = b
	w.rounds = w.rounds[:0]
	w.plan(buf, positionsOf(b.topology.hosts()))
	w.enter(0)
	b.room(1, b.set.segment)
	return w
}

func (w *halving) plan(buf []byte, p positions) {
	me := w.b.topology.me
	v := p.position(me)
	if v < 0 {
		w.rounds = append(w.rounds, halvingRound{peer: me + 1, send: buf}, halvingRound{peer: me + 1, recv: buf})
		return
	}
	if p.paired(me) {
		w.rounds = append(w.rounds, halvingRound{peer: me - 1, recv: buf, reduce: true})
	}
	first := len(w.rounds)
	lines := ceilDiv(len(buf), line)
	from, to := 0, p.power // pieces this peer is responsible for
	bytes := func(a, z int) []byte {
		return buf[min(lines*a/p.power*line, len(buf)):min(lines*z/p.power*line, len(buf))]
	}
	for bit := p.power / 2; bit > 0; bit /= 2 {
		middle := (from + to) / 2
		t := halvingRound{peer: p.rank(v ^ bit), reduce: true, last: bit == 1}
		if v&bit == 0 {
			t.recv, t.send = bytes(from, middle), bytes(middle, to)
			to = middle
		} else {
			t.send, t.recv = bytes(from, middle), bytes(middle, to)
			from = middle
		}
		w.rounds = append(w.rounds, t)
	}
	for k := len(w.rounds) - 1; k >= first; k-- {
		t := w.rounds[k]
		w.rounds = append(w.rounds, halvingRound{peer: t.peer, send: t.recv, recv: t.send})
	}
	if p.paired(me) {
		w.rounds = append(w.rounds, halvingRound{peer: me - 1, send: buf})
	}
}

func (w *halving) frameCount(buf []byte) int { return ceilDiv(len(buf), w.b.set.segment) }

func (w *halving) frames(peer int) (out, in int) {
	for _, t := range w.rounds {
		if t.peer == peer {
			out += w.frameCount(t.send)
			in += w.frameCount(t.recv)
		}
	}
	return out, in
}

// find returns the round of the i-th frame to or from a rank, and its bytes.
func (w *halving) find(peer, i int, send bool) (round int, frame []byte) {
	for k, t := range w.rounds {
		buf := t.recv
		if send {
			buf = t.send
		}
		if t.peer != peer {
			continue
		}
		if n := w.frameCount(buf); i >= n {
			i -= n
			continue
		}
		return k, piece(buf, i, w.b.set.segment)
	}
	panic("a frame of no round")
}

func (w *halving) out(peer, i int) ([]byte, bool) {
	k, frame := w.find(peer, i, true)
	return frame, k == w.now
}

func (w *halving) in(peer, i int) ([]byte, bool) {
	k, frame := w.find(peer, i, false)
	if k != w.now {
		return nil, false
	}
	if w.rounds[k].reduce {
		return w.b.slot(0, i)[:len(frame)], true
	}
	return frame, true
}

func (w *halving) sent(int, int) { w.advance() }

func (w *halving) received(peer, i int) {
	k, frame := w.find(peer, i, false)
	if t := &w.rounds[k]; t.reduce {
		w.b.merge(frame, w.b.slot(0, i)[:len(frame)], peer, t.last)
	}
	w.advance()
}

// advance counts a frame; the last one ends the round.
func (w *halving) advance() {
	if w.left--; w.left == 0 && w.now < len(w.rounds)-1 {
		w.enter(w.now + 1)
	}
}

// enter begins a round, or the next that has any frames.
func (w *halving) enter(k int) {
	for w.now = k; ; w.now++ {
		t := &w.rounds[w.now]
		if w.left = w.frameCount(t.send) + w.frameCount(t.recv); w.left > 0 || w.now == len(w.rounds)-1 {
			return
		}
	}
}
