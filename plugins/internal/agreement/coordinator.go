package agreement

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/internal/instance"
)

// coordinator compares the ranks' calls before the library moves any data. It runs in rank 0's backend,
// and every rank is connected to it.
type coordinator struct {
	group    sdk.Group
	listener net.Listener
	keys     *hostnet.TLS
	notes    hostnet.Notes
	running  sync.WaitGroup

	mu     sync.Mutex
	open   map[*peerConn]bool
	conns  []*peerConn // by rank, nil before it has connected
	calls  []*call     // by rank, those that wait for others
	failed *message    // why the group failed
	left   []bool      // by rank, those that will make no more calls
	closed bool
}

// peerConn is a peer's connection to the coordinator.
type peerConn struct {
	*tls.Conn
	visit *hostnet.Visit
}

// Close closes the connection immediately. TLS would first send an alert, and wait for a
// peer that does not read.
func (c *peerConn) Close() error { return c.visit.Close() }

const (
	handshakeTime = 5 * time.Second
	writeTime     = time.Second // messages fit into socket buffers, unless the rank is stopped
	leastWaiting  = 64          // connections during the handshake, plus one per rank
)

// openCoordinator listens on the address that the ranks connect to.
func openCoordinator(ctx context.Context, name string, g sdk.Group, ports hostnet.Ports, log *slog.Logger) (*coordinator, error) {
	tls, err := keys(name, g)
	if err != nil {
		return nil, err
	}
	l, err := instance.ListenTCP(ctx, false, coordinatorHost(g.MasterAddr), ports)
	if err != nil {
		return nil, err
	}
	h := &coordinator{group: g, listener: l, keys: tls, open: map[*peerConn]bool{},
		conns: make([]*peerConn, g.WorldSize), calls: make([]*call, g.WorldSize), left: make([]bool, g.WorldSize)}
	h.notes.Write = func(line string) { log.Warn(line) }
	h.running.Go(h.accept)
	return h, nil
}

// coordinatorHost is the address to listen on, "" for all interfaces.
func coordinatorHost(master string) string {
	switch master {
	case "":
		return "127.0.0.1"
	case "localhost":
		return master
	}
	return hostnet.LocalHost(master)
}

func (h *coordinator) port() int { return h.listener.Addr().(*net.TCPAddr).Port }

func (h *coordinator) accept() {
	a := hostnet.Acceptor{Limiter: hostnet.NewLimiter(leastWaiting + h.group.WorldSize), Notes: &h.notes}
	a.Run(h.listener, func(visit *hostnet.Visit) {
		c := &peerConn{h.keys.Server(visit), visit}
		if !h.add(c) {
			visit.Leave()
			c.Close()
			return
		}
		h.running.Go(func() { h.serve(c) })
	})
}

func (h *coordinator) add(c *peerConn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.open[c] = true
	}
	return !h.closed
}

// serve reads the messages of one connection until it is closed.
func (h *coordinator) serve(c *peerConn) {
	defer h.remove(c)
	from := json.NewDecoder(c)
	rank, err := h.admit(c, from)
	if err != nil {
		h.refused(c, err)
		return
	}
	for {
		var m message
		if err := from.Decode(&m); err != nil {
			h.fail(&message{Cause: "peer", From: rank, Text: "its backend closed or died"})
			return
		}
		h.handle(rank, m)
	}
}

func (h *coordinator) remove(c *peerConn) {
	c.visit.Leave()
	c.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, c)
}

// admit accepts a peer that proves the secret and is a rank of the group, and returns
// that rank.
func (h *coordinator) admit(c *peerConn, from *json.Decoder) (int, error) {
	c.SetDeadline(time.Now().Add(handshakeTime))
	if err := c.Handshake(); err != nil {
		return 0, err
	}
	if !c.visit.Leave() {
		return 0, net.ErrClosed
	}
	rank, err := receive(from, h.group)
	if err == nil {
		err = h.register(rank, c)
	}
	if no := (*refusal)(nil); errors.As(err, &no) {
		_ = json.NewEncoder(c).Encode(message{Kind: "refused", Text: no.text})
	}
	return rank, err
}

// register makes c the connection of a rank.
func (h *coordinator) register(rank int, c *peerConn) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns[rank] != nil {
		return &refusal{"second", fmt.Sprintf("claims to be rank %d, which is already connected", rank)}
	}
	c.SetDeadline(time.Time{})
	h.conns[rank] = c
	h.send(rank, message{Kind: "welcome"})
	if h.failed != nil {
		h.send(rank, *h.failed)
	}
	return nil
}

// refused logs a refused connection.
func (h *coordinator) refused(c *peerConn, err error) {
	h.mu.Lock()
	closed := h.closed
	h.mu.Unlock()
	if closed {
		return
	}
	cause, text := hostnet.Refusal(err)
	if no := (*refusal)(nil); errors.As(err, &no) {
		cause, text = no.cause, no.text
	}
	h.notes.Say(cause, "refused %v: it %s", c.RemoteAddr(), text)
}

// send sends a message to a rank. If that fails, it closes the connection.
func (h *coordinator) send(rank int, m message) {
	c := h.conns[rank]
	if c == nil {
		return
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings and numbers only
	}
	c.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := c.Write(raw); err != nil {
		c.Close()
	}
}

// fail ends the group with the first reason.
func (h *coordinator) fail(why *message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failLocked(why)
}

func (h *coordinator) failLocked(why *message) {
	if h.failed != nil || h.closed {
		return
	}
	why.Kind, h.failed = "fail", why
	for r := range h.conns {
		h.send(r, *why)
	}
}

func (h *coordinator) handle(rank int, m message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.failed != nil:
	case m.Kind == "call" && m.Call != nil && m.Call.Root >= 0 && m.Call.Root < len(h.conns):
		h.calls[rank] = m.Call
		h.match(rank)
	case m.Kind == "done" && m.Call != nil:
		if k := h.calls[rank]; k != nil && k.Round == m.Call.Round {
			h.calls[rank] = nil
		}
	case m.Kind == "leave":
		h.left[rank] = true
		h.farewell()
	case m.Kind == "late":
		h.late(rank)
	default:
		m.From = rank
		h.failLocked(&m)
	}
}

// late ends a call whose time is up. Ranks that exchange their calls by the library
// announce them here only after a while.
func (h *coordinator) late(rank int) {
	stall := func() { h.failLocked(&message{Cause: "stall", From: rank, Ranks: h.missing(rank)}) }
	if k := h.calls[rank]; k == nil || k.Round == 0 {
		stall()
		return
	}
	time.AfterFunc(2*announceAfter, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		stall()
	})
}

// missing returns the ranks for which a rank's call waits.
func (h *coordinator) missing(rank int) (ranks []int) {
	k := h.calls[rank]
	if k == nil {
		return nil // it was agreed on: all have called
	}
	for _, r := range k.partners(rank, len(h.calls)) {
		if o := h.calls[r]; o == nil || !k.concerns(rank, *o, r) {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// match compares a rank's call with those that wait, and starts the collective when no
// rank is missing.
func (h *coordinator) match(rank int) {
	k := h.calls[rank]
	for r, o := range h.calls {
		if o != nil && r != rank && k.concerns(rank, *o, r) && !k.matches(*o) {
			h.failLocked(&message{Cause: "mismatch", From: rank, Ranks: []int{rank, r}, Calls: [2]string{k.String(), o.String()}})
			return
		}
	}
	if len(h.missing(rank)) > 0 {
		if slices.Contains(h.left, true) {
			h.farewell()
		}
		return
	}
	for _, r := range append(k.partners(rank, len(h.calls)), rank) {
		its := h.calls[r]
		h.calls[r] = nil
		h.send(r, message{Kind: "go", Call: its})
	}
}

// farewell permits the ranks to leave when all have announced it. It fails the group if a
// rank waits for one that leaves, which would wait forever.
func (h *coordinator) farewell() {
	for rank, k := range h.calls {
		if k == nil {
			continue
		}
		for _, r := range h.missing(rank) {
			if h.left[r] {
				h.leftWaiting(rank, r)
				break
			}
		}
	}
	if h.failed != nil {
		return
	}
	if slices.Contains(h.left, false) {
		return
	}
	for r := range h.conns {
		h.send(r, message{Kind: "go"})
	}
}

// leftWaiting ends the group because a rank waits for one that leaves: at once, or if the ranks
// exchange their calls by the library, when the rank has not withdrawn its call for a while. It may
// have ended just now.
func (h *coordinator) leftWaiting(rank, gone int) {
	k := h.calls[rank]
	fail := func() { h.failLocked(&message{Cause: "peer", From: gone, Text: "its backend closed"}) }
	if k.Round == 0 {
		fail()
		return
	}
	time.AfterFunc(leaveGrace, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.failed == nil && !h.closed && h.calls[rank] == k {
			fail()
		}
	})
}

func (h *coordinator) close() {
	h.listener.Close()
	h.mu.Lock()
	h.closed = true
	for c := range h.open {
		c.Close()
	}
	h.mu.Unlock()
	h.running.Wait()
}

func coordinatorAddress(master string, port int) string {
	if master == "" {
		master = "127.0.0.1"
	}
	return net.JoinHostPort(master, strconv.Itoa(port))
}
