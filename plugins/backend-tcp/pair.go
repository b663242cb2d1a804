package tcp

import (
	"context"
	"fmt"
	"net"

	"github.com/trainctl/trainctl/core/sdk"
)

// Ranks that lead no host have no connections with most others. Send opens one when it is called for
// the first time, for the sends of this rank to that one; its receiver waits until the connection
// has arrived.

// pairStream is the stream of such a connection.
const pairStream = -1

// runPair runs a Send or Recv.
func (b *Backend) runPair(c *sdk.Collective) error {
	use := b.linkFor(c)
	for use == nil {
		err := b.openPair(c)
		if err != nil {
			return err
		}
		use = b.linkFor(c)
	}
	b.useLinks(func(l *link) int {
		if l == use || l.way == use.way && l.rank == use.rank {
			return 0
		}
		return -1
	})
	b.algorithms.transfer = transfer{b, c}
	return b.drive(b.choose(c))
}

// linkFor returns the first link for a transfer, or nil.
func (b *Backend) linkFor(c *sdk.Collective) *link {
	way := outgoing
	if c.Op == sdk.OpRecv {
		way = incoming
	}
	for _, l := range b.links {
		if l.rank == c.Root && l.stream == 0 && (l.way == bothWays || l.way == way) {
			return l
		}
	}
	return nil
}

// openPair connects to the rank to send to, or waits a while for the rank to receive from.
func (b *Backend) openPair(c *sdk.Collective) error {
	if c.Op == sdk.OpSend {
		conn, err := b.dialPair(c.Root)
		if err != nil {
			return err
		}
		return b.addPair(arrival{rank: c.Root, conn: conn}, outgoing)
	}
	ctx, cancel := context.WithTimeout(b.op.ctx, slice)
	defer cancel()
	select {
	case a := <-b.door.callers:
		return b.addPair(a, incoming)
	case <-ctx.Done():
	case <-b.life.Context.Done():
	}
	err := b.overdue()
	if err == nil {
		err = b.checkPeers()
	}
	if stall, ok := err.(*sdk.StallError); ok && len(stall.Missing) == 0 {
		stall.Missing = []int{c.Root}
	}
	return err
}

func (b *Backend) dialPair(rank int) (net.Conn, error) {
	ctx, cancel := b.op.ctx, context.CancelFunc(func() {})
	if !b.op.deadline.IsZero() {
		ctx, cancel = context.WithDeadline(ctx, b.op.deadline)
	}
	defer cancel()
	network, address := b.door.address(rank)
	conn, err := b.door.dialOnce(ctx, rank, pairStream, network, address)
	if err == nil {
		return conn, nil
	}
	if late := b.overdue(); late != nil {
		if stall, ok := late.(*sdk.StallError); ok {
			stall.Missing = []int{rank}
		}
		return nil, late
	}
	return nil, b.peerError(rank, fmt.Sprintf("it accepts no connection: %v", err))
}

// adoptPairs makes links of the connections that have arrived.
func (b *Backend) adoptPairs() error {
	if b.door == nil {
		return nil
	}
	for len(b.door.callers) > 0 {
		if err := b.addPair(<-b.door.callers, incoming); err != nil {
			return err
		}
	}
	return nil
}

func (b *Backend) addPair(a arrival, w way) error {
	l, err := newLink(a.rank, 0, 1, a.conn)
	if err != nil {
		return fmt.Errorf("backend tcp: connection with rank %d: %w", a.rank, err)
	}
	l.way = w
	b.links = append(b.links, l)
	return nil
}

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
