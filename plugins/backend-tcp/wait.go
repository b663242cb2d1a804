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

// slice is how long a wait lasts until it checks for a rank that died or aborted,
// and for Close.
const slice = 100 * time.Millisecond

// wait returns when a link can send or receive, or with the reason why the
// collective cannot continue.
func (b *Backend) wait(w algorithm) error {
	for _, l := range b.links {
		l.paused = l.lost != nil || l.in.got == headerSize && b.due(l, w).kind == 0
	}
	b.poller.wait(b.links, slice)
	if err := b.overdue(); err != nil {
		return b.named(w, err)
	}
	return nil
}

// overdue returns why the running call must end although no rank failed. The ranks of
// a stall are not known yet.
func (b *Backend) overdue() error {
	if b.life.Closed() {
		return instance.ErrClosed
	}
	ended := b.op.ctx.Err() // once: a call that is canceled meanwhile has not run out of time
	if ended != nil && !errors.Is(ended, context.DeadlineExceeded) {
		return fmt.Errorf("backend tcp: %v: %w", b.op.call, ended)
	}
	now := time.Now()
	if err := b.checkUnresponsive(now); err != nil {
		return err
	}
	if ended != nil || !b.op.deadline.IsZero() && !now.Before(b.op.deadline) {
		return b.stall()
	}
	return nil
}

// checkUnresponsive returns an error for a rank whose host no longer acknowledges data.
// The process may be slow until the deadline, but its kernel must acknowledge.
func (b *Backend) checkUnresponsive(now time.Time) error {
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

// named adds the missing ranks to a stall: those from which a frame is expected, or
// else those that do not receive what they are sent.
func (b *Backend) named(w algorithm, err error) error {
	var stall *sdk.StallError
	if !errors.As(err, &stall) || len(stall.Missing) > 0 {
		return err
	}
	expected := make([]bool, b.group.WorldSize)
	for _, l := range b.links {
		expected[l.rank] = expected[l.rank] || b.due(l, w).kind != 0
	}
	stall.Missing = listed(expected)
	if len(stall.Missing) > 0 {
		return err
	}
	for _, l := range b.links {
		expected[l.rank] = expected[l.rank] || l.out.size > 0
	}
	stall.Missing = listed(expected)
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
