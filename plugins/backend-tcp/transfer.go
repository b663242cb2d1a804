package tcp

import "github.com/trainctl/trainctl/core/sdk"

// transfer is one end of Send and Recv.
type transfer struct {
	b *Backend
	c *sdk.Collective
}

func (w *transfer) count() int { return ceilDiv(len(w.c.Buf), w.b.set.segment) }

func (w *transfer) frames(int) (out, in int) {
	if w.c.Op == sdk.OpSend {
		return w.count(), 0
	}
	return 0, w.count()
}

func (w *transfer) out(_, i int) ([]byte, bool) { return piece(w.c.Buf, i, w.b.set.segment), true }
func (w *transfer) in(_, i int) ([]byte, bool)  { return piece(w.c.Buf, i, w.b.set.segment), true }
func (w *transfer) sent(int, int)               {}
func (w *transfer) received(int, int)           {}
