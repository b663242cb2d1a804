package keepalive

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// Limit is how long the other host may acknowledge nothing: probes start after 5 s
// without traffic, one every 5 s, and the third unanswered one ends the connection.
// The kernel of the other host answers them, so a stopped or busy process does not.
const Limit = 20 * time.Second

const (
	probeEvery = 5 * time.Second
	probes     = 3
)

var probing = net.KeepAliveConfig{Enable: true, Idle: probeEvery, Interval: probeEvery, Count: probes}

// Bulk is for connections that carry more than the receiver's buffers hold. They get
// no user timeout, since on Linux 5.11 and later it also ends a connection whose
// receiver is alive but does not read. The sender polls a [Watch] while it waits.
type Bulk bool

// Watch notices that the other host no longer acknowledges what a connection
// sends. The zero value is ready; it belongs to one goroutine.
type Watch struct {
	since  time.Time // when something was owed first, or acknowledged last
	polled time.Time
}

// maxGap is the longest time between two polls of one wait.
const maxGap = 2 * time.Second

// Unheard returns how long the other host has acknowledged none of the data sent, 0
// if all of it is acknowledged. Poll it at least once a second while waiting; after a
// longer gap it starts again from 0. A receiver that does not read still
// acknowledges; the kernel then probes it, at intervals that grow to two minutes, and
// an unanswered probe counts as unacknowledged data. For sockets other than TCP, and
// on systems other than Linux, it returns 0.
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

// Dialer returns a dialer for connections to other hosts.
func Dialer(bulk Bulk) net.Dialer {
	return net.Dialer{KeepAliveConfig: probing, ControlContext: control(bulk)}
}

// Listener returns the configuration of a listener for connections from other hosts,
// which inherit its settings.
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

// Explain replaces the error of a connection whose other host stopped answering with
// one that names both addresses and the time. It returns other errors unchanged.
func Explain(err error) error {
	var op *net.OpError
	if !Silent(err) || !errors.As(err, &op) || op.Addr == nil || op.Source == nil {
		return err
	}
	return fmt.Errorf("%s: %w", Silence(op.Source, op.Addr), err)
}

// Silent reports whether a connection ended because the other host stopped answering.
// The kernel may report the last error of the route instead of the timeout.
func Silent(err error) bool {
	return errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

// Silence is the error for another host that acknowledged nothing for Limit.
func Silence(local, remote net.Addr) string {
	return fmt.Sprintf("%v, seen from %v, acknowledged nothing for %v: the network between them is down, or that host is", remote, local, Limit)
}
