package nccl

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/internal/instance"
)

// hub compares the ranks' calls before NCCL moves any data. It runs in rank 0's backend,
// and every rank is connected to it. NCCL itself would hang on calls that do not match,
// and does not report which ranks are missing.
type hub struct {
	group    sdk.Group
	listener net.Listener
	keys     *hostnet.TLS
	notes    hostnet.Notes
	running  sync.WaitGroup

	mu      sync.Mutex
	open    map[*caller]bool
	lines   []*caller // by rank, nil before it has connected
	calls   []*call   // by rank, those that wait for others
	verdict *message  // why the group failed
	closed  bool
}

// caller is a peer's connection to the hub.
type caller struct {
	*tls.Conn
	visit *hostnet.Visit
}

// Close closes the connection immediately. TLS would first send an alert, and wait for a
// peer that does not read.
func (c *caller) Close() error { return c.visit.Close() }

const (
	handshakeTime = 5 * time.Second
	writeTime     = time.Second // messages fit into socket buffers, unless the rank is stopped
	leastWaiting  = 64          // connections during the handshake, plus one per rank
)

// openHub listens on the address that the ranks connect to.
func openHub(ctx context.Context, g sdk.Group, ports hostnet.Ports, log *slog.Logger) (*hub, error) {
	tls, err := keys(g)
	if err != nil {
		return nil, err
	}
	l, err := instance.ListenTCP(ctx, false, hubHost(g.MasterAddr), ports)
	if err != nil {
		return nil, err
	}
	h := &hub{group: g, listener: l, keys: tls, open: map[*caller]bool{},
		lines: make([]*caller, g.WorldSize), calls: make([]*call, g.WorldSize)}
	h.notes.Write = func(line string) { log.Warn(line) }
	h.running.Go(h.accept)
	return h, nil
}

// hubHost is the address to listen on, "" for all interfaces.
func hubHost(master string) string {
	switch master {
	case "":
		return "127.0.0.1"
	case "localhost":
		return master
	}
	return hostnet.LocalHost(master)
}

func (h *hub) port() int { return h.listener.Addr().(*net.TCPAddr).Port }

func (h *hub) accept() {
	a := hostnet.Acceptor{Limiter: hostnet.NewLimiter(leastWaiting + h.group.WorldSize), Notes: &h.notes}
	a.Run(h.listener, func(visit *hostnet.Visit) {
		c := &caller{h.keys.Server(visit), visit}
		if !h.keep(c) {
			visit.Leave()
			c.Close()
			return
		}
		h.running.Go(func() { h.serve(c) })
	})
}

func (h *hub) keep(c *caller) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.open[c] = true
	}
	return !h.closed
}

// serve reads the messages of one connection until it is closed.
func (h *hub) serve(c *caller) {
	defer h.drop(c)
	from := json.NewDecoder(c)
	rank, err := h.admit(c, from)
	if err != nil {
		h.refused(c, err)
		return
	}
	for {
		var m message
		if err := from.Decode(&m); err != nil {
			h.end(&message{Cause: "peer", From: rank, Text: "its backend closed or died"})
			return
		}
		h.heard(rank, m)
	}
}

func (h *hub) drop(c *caller) {
	c.visit.Leave()
	c.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, c)
}

// admit accepts a peer that proves the secret and is a rank of the group, and returns
// that rank.
func (h *hub) admit(c *caller, from *json.Decoder) (int, error) {
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
func (h *hub) register(rank int, c *caller) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lines[rank] != nil {
		return &refusal{"second", fmt.Sprintf("claims to be rank %d, which is already connected", rank)}
	}
	c.SetDeadline(time.Time{})
	h.lines[rank] = c
	h.tell(rank, message{Kind: "welcome"})
	if h.verdict != nil {
		h.tell(rank, *h.verdict)
	}
	return nil
}

// refused logs a refused connection.
func (h *hub) refused(c *caller, err error) {
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

// tell sends a message to a rank. If that fails, it closes the connection.
func (h *hub) tell(rank int, m message) {
	c := h.lines[rank]
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

// end fails the group with the first reason.
func (h *hub) end(why *message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fail(why)
}

func (h *hub) fail(why *message) {
	if h.verdict != nil || h.closed {
		return
	}
	why.Kind, h.verdict = "fail", why
	for r := range h.lines {
		h.tell(r, *why)
	}
}

func (h *hub) heard(rank int, m message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.verdict != nil:
	case m.Kind == "call" && m.Call != nil && m.Call.Root >= 0 && m.Call.Root < len(h.lines):
		h.calls[rank] = m.Call
		h.match(rank)
	case m.Kind == "late":
		h.fail(&message{Cause: "stall", From: rank, Ranks: h.missing(rank)})
	default:
		m.From = rank
		h.fail(&m)
	}
}

// missing returns the ranks for which a rank's call waits.
func (h *hub) missing(rank int) (ranks []int) {
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
func (h *hub) match(rank int) {
	k := h.calls[rank]
	for r, o := range h.calls {
		if o != nil && r != rank && k.concerns(rank, *o, r) && !k.matches(*o) {
			h.fail(&message{Cause: "mismatch", From: rank, Ranks: []int{rank, r}, Calls: [2]string{k.String(), o.String()}})
			return
		}
	}
	if len(h.missing(rank)) > 0 {
		return
	}
	for _, r := range append(k.partners(rank, len(h.calls)), rank) {
		h.calls[r] = nil
		h.tell(r, message{Kind: "go"})
	}
}

func (h *hub) close() {
	h.listener.Close()
	h.mu.Lock()
	h.closed = true
	for c := range h.open {
		c.Close()
	}
	h.mu.Unlock()
	h.running.Wait()
}

func hubAddress(master string, port int) string {
	if master == "" {
		master = "127.0.0.1"
	}
	return net.JoinHostPort(master, strconv.Itoa(port))
}
