package nccl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/base/keepalive"
	"github.com/trainctl/trainctl/core/sdk"
)

// line is a rank's connection with the hub.
type line struct {
	conn    net.Conn
	rank    int
	running sync.WaitGroup
	goes    chan struct{} // the call that was announced may begin
	over    chan struct{} // closed with verdict and ended set: the group is given up
	verdict message
	ended   time.Time
}

// dial calls the hub and proves who this rank is.
func dial(ctx context.Context, g sdk.Group, address string) (*line, error) {
	d := keepalive.Dialer(false)
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	err = greet(c, g)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	l := &line{conn: c, rank: g.Rank, goes: make(chan struct{}, 1), over: make(chan struct{})}
	l.running.Go(l.listen)
	return l, nil
}

// listen reads until the group is over.
func (l *line) listen() {
	defer func() { l.ended = time.Now(); close(l.over) }()
	for from := json.NewDecoder(l.conn); ; {
		var m message
		if err := from.Decode(&m); err != nil {
			l.verdict = message{Kind: "fail", Cause: "peer", From: 0, Text: "it is gone: its backend closed or died"}
			return
		}
		switch m.Kind {
		case "go":
			select {
			case l.goes <- struct{}{}:
			default: // nobody announced a call
			}
		case "fail":
			l.verdict = m
			return
		}
	}
}

func (l *line) send(m message) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	l.conn.SetWriteDeadline(time.Now().Add(writeTime))
	_, err = l.conn.Write(raw)
	return err
}

// agree announces a call and returns when all that it needs have announced
// theirs. stalled makes the error for ranks that did not.
func (l *line) agree(ctx, life context.Context, c *sdk.Collective, stalled func([]int) error) error {
	k := callOf(c)
	_ = l.send(message{Kind: "call", Call: &k}) // a line that is cut ends in over
	select {
	case <-l.goes:
		return nil
	case <-l.over:
		select {
		case <-l.goes: // agreed on before somebody left
			return nil
		default:
			return l.failure(c.Seq, stalled)
		}
	case <-life.Done():
		return errClosed
	case <-ctx.Done():
	}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("backend nccl: %v: %w", c, context.Cause(ctx))
	}
	return l.late(life, c.Seq, stalled)
}

// late asks the hub whom this rank waits for. A hub that does not answer is
// itself what is missing.
func (l *line) late(life context.Context, seq uint64, stalled func([]int) error) error {
	_ = l.send(message{Kind: "late"})
	patience := time.NewTimer(budget)
	defer patience.Stop()
	select {
	case <-l.over:
		return l.failure(seq, stalled)
	case <-life.Done():
		return errClosed
	case <-patience.C:
		return stalled([]int{0})
	}
}

// failure is the reason why the group was given up. over is closed.
func (l *line) failure(seq uint64, stalled func([]int) error) error {
	return l.verdict.failure(l.rank, seq, stalled)
}

// farewell is how long a collective may go on that somebody has left: whoever
// finished it may leave before the others have.
const farewell = time.Second

// left is failure, once there was time for a farewell, and nil before.
func (l *line) left(seq uint64, stalled func([]int) error) error {
	select {
	case <-l.over:
		if time.Since(l.ended) > farewell {
			return l.failure(seq, stalled)
		}
	default:
	}
	return nil
}

// abandon tells the others that this rank gives up.
func (l *line) abandon(cause error) {
	m := message{Kind: "fail", Cause: "peer", Text: "it gave up: " + cause.Error()}
	if stall := (*sdk.StallError)(nil); errors.As(cause, &stall) {
		m.Cause, m.Ranks = "stall", stall.Missing
	}
	_ = l.send(m)
}

func (l *line) close() {
	l.conn.Close()
	l.running.Wait()
}
