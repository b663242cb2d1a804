package agreement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/base/keepalive"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/internal/clib"
	"github.com/trainctl/trainctl/plugins/internal/instance"
)

// client is a rank's connection to the coordinator.
type client struct {
	conn    net.Conn // under TLS
	raw     net.Conn
	from    *json.Decoder
	rank    int
	running sync.WaitGroup
	agreed  chan message  // the newest "go"
	done    chan struct{} // closed when the group has failed, with reason and ended set
	reason  message
	ended   time.Time
}

// dial tries to connect to the coordinator until it answers or ctx ends: among many other
// connections, one may be closed before its handshake. A refusal is final, and so is a
// port without a listener, because the coordinator listens before its port is published.
func dial(ctx context.Context, name string, g sdk.Group, address string) (*client, error) {
	tls, err := keys(name, g)
	if err != nil {
		return nil, err
	}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		l, err := dialOnce(ctx, g, address, tls)
		if err == nil || final(err) || errors.Is(err, syscall.ECONNREFUSED) {
			return l, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
	}
}

// dialOnce connects to the coordinator once.
func dialOnce(ctx context.Context, g sdk.Group, address string, tls *hostnet.TLS) (*client, error) {
	d := keepalive.Dialer(false)
	d.Timeout = handshakeTime
	raw, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	raw.SetDeadline(time.Now().Add(handshakeTime))
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	conn := tls.Client(raw)
	l := &client{conn: conn, raw: raw, from: json.NewDecoder(conn), rank: g.Rank, agreed: make(chan message, 1), done: make(chan struct{})}
	if err = conn.Handshake(); err == nil {
		err = handshake(json.NewEncoder(conn), l.from, g)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	raw.SetDeadline(time.Time{})
	l.running.Go(l.listen)
	return l, nil
}

// listen reads messages until the group has failed.
func (l *client) listen() {
	defer func() { l.ended = time.Now(); close(l.done) }()
	for {
		var m message
		if err := l.from.Decode(&m); err != nil {
			l.reason = message{Kind: "fail", Cause: "peer", From: 0, Text: "its backend closed or died"}
			return
		}
		switch m.Kind {
		case "go":
			select {
			case <-l.agreed: // of a call that has ended without it
			default:
			}
			l.agreed <- m // nothing else sends, so there is room
		case "fail":
			l.reason = m
			return
		}
	}
}

func (l *client) send(m message) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	l.conn.SetWriteDeadline(time.Now().Add(writeTime))
	_, err = l.conn.Write(raw)
	return err
}

// agree announces a call and returns when all ranks that take part have announced
// theirs. stalled returns the error for ranks that have not.
func (l *client) agree(ctx context.Context, life *instance.State, c *sdk.Collective, round uint64, stalled Stalled) error {
	k := callOf(c)
	k.Round = round
	l.announce(k)
	switch err := l.permitted(ctx, life.Context, &k); {
	case err == nil, errors.Is(err, instance.ErrClosed):
		return err
	case errors.Is(err, errAborted):
		return l.failure(c.Seq, stalled)
	case !errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("backend %s: %v: %w", life.Name, c, context.Cause(ctx))
	}
	return l.findMissing(life.Context, c.Seq, stalled)
}

// permitted waits until the coordinator lets a call start, or this rank leave if k is nil. If the group
// fails before, or a context ends, it returns errAborted, instance.ErrClosed for life, or ctx's error. A
// "go" may also be for an earlier call, which the library has exchanged before it came: that one is dropped.
func (l *client) permitted(ctx, life context.Context, k *call) error {
	for {
		var m message
		var end error
		select {
		case m = <-l.agreed:
		case <-l.done:
			end = errAborted
		case <-life.Done():
			end = instance.ErrClosed
		case <-ctx.Done():
			end = ctx.Err()
		}
		if end != nil {
			select {
			case m = <-l.agreed: // it came before the end
			default:
				return end
			}
		}
		if m.permits(k) {
			return nil
		}
	}
}

// announce sends a call to the coordinator. If the connection fails, done is closed.
func (l *client) announce(k call) { _ = l.send(message{Kind: "call", Call: &k}) }

// findMissing asks the coordinator which ranks have not called yet. If it does not answer,
// rank 0 is missing.
func (l *client) findMissing(life context.Context, seq uint64, stalled Stalled) error {
	_ = l.send(message{Kind: "late"})
	wait := time.NewTimer(clib.Budget)
	defer wait.Stop()
	select {
	case <-l.done:
		return l.failure(seq, stalled)
	case <-life.Done():
		return instance.ErrClosed
	case <-wait.C:
		return stalled([]int{0})
	}
}

// failure returns why the group failed. done is closed.
func (l *client) failure(seq uint64, stalled Stalled) error {
	return l.reason.failure(l.rank, seq, stalled)
}

// withdraw tells the coordinator that an announced call has ended without it.
func (l *client) withdraw(k call) { _ = l.send(message{Kind: "done", Call: &k}) }

// leaveGrace is how long a collective may continue after a rank has left: a rank that
// has finished it may leave before the others finish.
const leaveGrace = time.Second

// left returns failure after leaveGrace, and nil before.
func (l *client) left(seq uint64, stalled Stalled) error {
	select {
	case <-l.done:
		if time.Since(l.ended) > leaveGrace {
			return l.failure(seq, stalled)
		}
	default:
	}
	return nil
}

// leave announces that this rank will make no more calls, and reports whether all ranks
// have announced it before ctx ends.
func (l *client) leave(ctx context.Context) bool {
	_ = l.send(message{Kind: "leave"})
	return l.permitted(ctx, ctx, nil) == nil
}

// reportFailure reports the failure of this rank to the others.
func (l *client) reportFailure(cause error) {
	m := message{Kind: "fail", Cause: "peer", Text: "it failed: " + cause.Error()}
	if stall := (*sdk.StallError)(nil); errors.As(cause, &stall) {
		m.Cause, m.Ranks = "stall", stall.Missing
	}
	_ = l.send(m)
}

func (l *client) close() {
	l.raw.Close() // TLS would wait for a coordinator that does not read
	l.running.Wait()
}
