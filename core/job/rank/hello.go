package rank

import "fmt"

// hello is the first message of a peer after the handshake.
type hello struct {
	rank, size, generation int
	runID, host            string
}

func (h hello) frame(id uint64) frame {
	return frame{op: opHello, id: id, body: fields{}.number(int64(h.rank)).number(int64(h.size)).
		number(int64(h.generation)).text(h.runID).text(h.host)}
}

func parseHello(f frame) (hello, error) {
	if f.op != opHello {
		return hello{}, fmt.Errorf("%w: operation %d before hello", errFrame, f.op)
	}
	p := &parser{rest: f.body}
	h := hello{rank: p.small(), size: p.small(), generation: p.small(), runID: p.text(), host: p.text()}
	return h, p.end()
}
