package nccl

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/base/keepalive"
	"github.com/trainctl/trainctl/core/sdk"
)

// hub is where the ranks agree on a collective before NCCL moves any data: it
// lives beside rank 0, and every rank has a line to it. NCCL itself would hang
// on calls that do not fit, and does not say who is missing.
type hub struct {
	group    sdk.Group
	log      *slog.Logger
	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex
	open    map[net.Conn]bool
	lines   []net.Conn // by rank, nil before it has called
	calls   []*call    // by rank, those that wait for others
	verdict *message   // why the group is over
	closed  bool
}

const (
	handshakeTime = 5 * time.Second
	writeTime     = time.Second // a line takes less than its buffer, unless its rank is stopped
)

// openHub listens where the ranks can reach this host.
func openHub(g sdk.Group, log *slog.Logger) (*hub, error) {
	host := ""
	if ip := net.ParseIP(g.MasterAddr); g.MasterAddr == "" || g.MasterAddr == "localhost" || ip != nil && ip.IsLoopback() {
		host = "127.0.0.1"
	}
	lc := keepalive.Listener(false)
	l, err := lc.Listen(context.Background(), "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	h := &hub{group: g, log: log, listener: l, open: map[net.Conn]bool{},
		lines: make([]net.Conn, g.WorldSize), calls: make([]*call, g.WorldSize)}
	h.running.Go(h.accept)
	return h, nil
}

func (h *hub) port() int { return h.listener.Addr().(*net.TCPAddr).Port }

func (h *hub) accept() {
	for {
		c, err := h.listener.Accept()
		if err != nil || !h.keep(c) {
			return
		}
		h.running.Go(func() { h.serve(c) })
	}
}

func (h *hub) keep(c net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		c.Close()
		return false
	}
	h.open[c] = true
	return true
}

// serve listens to one caller until it hangs up.
func (h *hub) serve(c net.Conn) {
	defer h.drop(c)
	c.SetDeadline(time.Now().Add(handshakeTime))
	rank, err := receive(c, h.group)
	if err != nil {
		h.log.Warn("refused a caller", "from", c.RemoteAddr(), "cause", err)
		return
	}
	c.SetDeadline(time.Time{})
	if !h.admit(rank, c) {
		h.log.Warn("refused a second caller", "from", c.RemoteAddr(), "as", rank)
		return
	}
	for from := json.NewDecoder(c); ; {
		var m message
		if err := from.Decode(&m); err != nil {
			h.end(&message{Cause: "peer", From: rank, Text: "it is gone: its backend closed or died"})
			return
		}
		h.heard(rank, m)
	}
}

func (h *hub) drop(c net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, c)
	c.Close()
}

func (h *hub) admit(rank int, c net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lines[rank] != nil {
		return false
	}
	h.lines[rank] = c
	if h.verdict != nil {
		h.tell(rank, *h.verdict)
	}
	return true
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
