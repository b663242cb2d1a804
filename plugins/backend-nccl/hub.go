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

// hub is where the ranks agree on a collective before NCCL moves any data: it
// lives beside rank 0, and every rank has a line to it. NCCL itself would hang
// on calls that do not fit, and does not say who is missing.
type hub struct {
	group    sdk.Group
	listener net.Listener
	keys     *hostnet.TLS
	notes    hostnet.Notes
	running  sync.WaitGroup

	mu      sync.Mutex
	open    map[*caller]bool
	lines   []*caller // by rank, nil before it has called
	calls   []*call   // by rank, those that wait for others
	verdict *message  // why the group is over
	closed  bool
}

// caller is a peer's connection with the hub.
type caller struct {
	*tls.Conn
	visit *hostnet.Visit
}

// Close ends the connection at once. TLS would say goodbye first, and wait for a
// peer that does not read.
func (c *caller) Close() error { return c.visit.Close() }

const (
	handshakeTime = 5 * time.Second
	writeTime     = time.Second // a line takes less than its buffer, unless its rank is stopped
	leastWaiting  = 64          // connections that may wait for their proof, beside one of each rank
)

// openHub listens where the ranks can reach this host.
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

// serve listens to one caller until it hangs up.
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
			h.end(&message{Cause: "peer", From: rank, Text: "it is gone: its backend closed or died"})
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

// admit lets a peer in that proves the secret and is a rank of the group, and
// returns that rank.
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
		err = h.enlist(rank, c)
	}
	if no := (*refusal)(nil); errors.As(err, &no) {
		_ = json.NewEncoder(c).Encode(message{Kind: "refused", Text: no.text})
	}
	return rank, err
}

// enlist makes c the line of a rank.
func (h *hub) enlist(rank int, c *caller) error {
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

// refused notes who was turned away.
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

// tell sends a message to a rank. A line that takes nothing is cut.
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

// end gives the group up, for the first reason there is.
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

// missing are the ranks that rank's call waits for.
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

// match compares rank's call with those that wait, and lets all go when no one
// is missing.
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
