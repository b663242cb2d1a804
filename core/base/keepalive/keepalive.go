package keepalive

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// Limit is how long the other host may acknowledge nothing: probes after 5 s
// without traffic, every 5 s, and three without an answer. The kernel of the other host
// answers them, so a stopped or busy process is no reason to end a connection.
const Limit = 20 * time.Second

const (
	probeEvery = 5 * time.Second
	probes     = 3
)

var probing = net.KeepAliveConfig{Enable: true, Idle: probeEvery, Interval: probeEvery, Count: probes}

// Bulk says that a connection carries more than the receiver's buffers hold. It
// gets no user timeout, which on Linux since 5.11 also ends a connection whose
// receiver is alive and merely does not read; its sender polls a [Watch]
// while it waits.
type Bulk bool

// Watch notices that the other host no longer acknowledges what a connection
// sends. The zero value is ready; it belongs to one goroutine.
type Watch struct {
	since  time.Time // when something was owed first, or acknowledged last
	polled time.Time
}

// maxGap is the longest time between two polls of one wait.
const maxGap = 2 * time.Second

// Unheard is for how long the other host has acknowledged nothing of what was
// sent, as far as the polls know, 0 when it owes nothing. Poll it at least
// once a second while waiting; a longer gap starts anew. A receiver that does not
// read acknowledges and owes nothing; the kernel then probes it, at intervals
// that grow to two minutes, and an unanswered probe counts as owed. fd may be any
// socket; others than TCP's, and systems other than Linux, give 0.
func (w *Watch) Unheard(fd int, now time.Time) time.Duration {
	owed, ack := owes(fd)
	if heard := now.Add(-ack); w.since.IsZero() || now.Sub(w.polled) > maxGap || !owed {
		w.since = now
	} else if heard.After(w.since) {
		w.since = heard
	}
	w.polled = now
	return now.Sub(w.since)
}

// Dialer makes connections to other hosts.
func Dialer(bulk Bulk) net.Dialer {
	return net.Dialer{KeepAliveConfig: probing, ControlContext: control(bulk)}
}

// Listener accepts connections of other hosts; they inherit its settings.
func Listener(bulk Bulk) net.ListenConfig {
	set := control(bulk)
	return net.ListenConfig{KeepAliveConfig: probing, Control: func(network, address string, c syscall.RawConn) error {
		return set(context.Background(), network, address, c)
	}}
}

// control sets the user timeout on a new TCP socket.
func control(bulk Bulk) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, network, _ string, c syscall.RawConn) error {
		if bulk || len(network) < 3 || network[:3] != "tcp" {
			return nil
		}
		var failed error
		if err := c.Control(func(fd uintptr) { failed = setUserTimeout(int(fd), Limit) }); err != nil {
			return err
		}
		return failed
	}
}

// Explain adds to an error what it means when the other host fell silent: both
// ends of the link, and for how long. Other errors are returned as they are.
func Explain(err error) error {
	var op *net.OpError
	if !Silent(err) || !errors.As(err, &op) || op.Addr == nil || op.Source == nil {
		return err
	}
	return fmt.Errorf("%s: %w", Silence(op.Source, op.Addr), err)
}

// Silent reports whether a connection ended because the other host fell silent.
// What the kernel last heard of the route stands for the timeout.
func Silent(err error) bool {
	return errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

// Silence says what it means that the other host acknowledged nothing for Limit.
func Silence(local, remote net.Addr) string {
	return fmt.Sprintf("%v, seen from %v, acknowledged nothing for %v: the network between them is down, or that host is", remote, local, Limit)
}
