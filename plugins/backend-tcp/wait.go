package tcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/base/keepalive"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/internal/instance"
)

// slice is how long a wait goes on without looking whether somebody died,
// gave up, or called Close.
const slice = 100 * time.Millisecond

// wait returns when a link can move something, or with the reason why the
// collective cannot go on.
func (b *Backend) wait(w way) error {
	for _, l := range b.links {
		l.deaf = l.lost != nil || l.in.got == headerSize && b.due(l, w).kind == 0
	}
	b.poller.wait(b.links, slice)
	if err := b.overdue(); err != nil {
		return b.named(w, err)
	}
	return nil
}

// overdue says why the running call has to end although nobody failed; a stall
// does not name anyone yet.
func (b *Backend) overdue() error {
	if b.life.Closed() {
		return instance.ErrClosed
	}
	if err := b.op.ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("backend tcp: %v: %w", b.op.call, err)
	}
	now := time.Now()
	if err := b.cutOff(now); err != nil {
		return err
	}
	if b.op.ctx.Err() != nil || !b.op.deadline.IsZero() && !now.Before(b.op.deadline) {
		return b.stall()
	}
	return nil
}

// cutOff names a rank whose host no longer acknowledges what it is sent. Its
// process may be slow for as long as the deadline allows; its kernel may not.
func (b *Backend) cutOff(now time.Time) error {
	if now.Sub(b.looked) < time.Second/2 {
		return nil
	}
	b.looked = now
	for _, l := range b.links {
		if l.cut(now) {
			return b.peerError(l.rank, keepalive.Silence(l.here, l.there))
		}
	}
	return nil
}

// named completes a stall: the ranks that owe a frame did not arrive, and if
// there are none, those that do not take what they are sent.
func (b *Backend) named(w way, err error) error {
	var stall *sdk.StallError
	if !errors.As(err, &stall) {
		return err
	}
	owing := make([]bool, b.group.WorldSize)
	for _, l := range b.links {
		owing[l.rank] = owing[l.rank] || b.due(l, w).kind != 0
	}
	stall.Missing = listed(owing)
	if len(stall.Missing) > 0 {
		return err
	}
	for _, l := range b.links {
		owing[l.rank] = owing[l.rank] || l.out.size > 0
	}
	stall.Missing = listed(owing)
	return err
}

func listed(set []bool) (ranks []int) {
	for r, in := range set {
		if in {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

func (b *Backend) stall(missing ...int) error {
	return &sdk.StallError{Seq: b.op.c.Seq, Op: b.op.c.Op, Bucket: b.op.c.Bucket,
		Missing: missing, Waited: time.Since(b.op.start)}
}

func (b *Backend) peerError(rank int, cause string) error {
	return &sdk.PeerError{Peer: rank, Seq: b.op.c.Seq, Cause: cause}
}
