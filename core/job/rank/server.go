package rank

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/base/keepalive"
	"github.com/trainctl/trainctl/core/job/secret"
)

// StoreOptions describe the job whose ranks a store serves.
type StoreOptions struct {
	RunID  string
	Secret secret.Secret // required

	// PublicName is as in DialOptions, for ranks that search for the store.
	PublicName string

	// Ports is where to listen if the address leaves the port open ("host:0").
	Ports hostnet.Ports

	// WorldSize is the number of ranks; a rank that expects another is refused.
	WorldSize int

	// Generation is the restart count of the group; ranks of another start are
	// refused, so none of them reads values of an earlier start.
	Generation int

	// Elastic lets ranks leave and come back: members form groups with Members.Regroup.
	// A member that is silent for LostAfter is disconnected, and so is one that answers, but does not
	// come to the next group within LateAfter of the first (0: LostAfter). 0 waits for both.
	Elastic   bool
	LostAfter time.Duration
	LateAfter time.Duration

	// Least is how many ranks an elastic job needs; 0 is WorldSize to start with, and 1 later.
	// With fewer, those that are between two steps wait for others for WaitForLeast. When as many
	// have come to the first group, others have Window to come too.
	Least        int
	Window       time.Duration
	WaitForLeast time.Duration

	// Journal makes an elastic job survive the process that hosts its store: the next host continues
	// from the records. Dead are the ranks of the last host, if it has died. nil: neither.
	Journal Journal
	Dead    []int

	// Roster names the hosts of ranks that have not connected yet, for
	// messages about who is missing. May be empty.
	Roster []Peer

	// OnLeave is called once for every rank that disconnects without leaving the
	// job, from a goroutine of the server, with the time since when it was connected.
	OnLeave func(rank int, since time.Time, err error)

	// Log receives a line for refused peers, at most one a minute for each cause.
	// nil drops them.
	Log func(format string, args ...any)

	limiter *hostnet.Limiter // for tests; nil: as large as the process's limits allow
}

// Server hosts the store of a job. Close ends it.
type Server struct {
	opts  StoreOptions
	ln    net.Listener
	tls   *hostnet.TLS
	notes hostnet.Notes
	wg    sync.WaitGroup

	mu        sync.Mutex
	pulse     pulse
	state     *state
	peers     map[int]*serverConn      // accepted, by rank
	conns     map[*serverConn]struct{} // all, including those not accepted yet
	observers map[*serverConn]struct{} // accepted
	onLeave   func(int, time.Time, error)
	closed    bool
	expecting int // the group for whose members LostAfter is running; 0: none
	delays    [delays]*running
	changed   chan struct{} // closed and replaced when a peer leaves
	outbox    []outgoing    // waits for the journal
	restored  int           // the epoch of the journal's group; 0: none
	life      context.Context
	end       context.CancelCauseFunc // with the error of the journal, or nil
}

const writeTime = 30 * time.Second // for a peer that stopped reading

// ListenStore listens on addr ("host:port"; port 0 takes one of Ports) and serves
// the job there. The listener stays open, so a launcher that passes Addr to the
// ranks it starts cannot lose the port to another process.
func ListenStore(addr string, o StoreOptions) (*Server, error) {
	if o.WorldSize < 1 || o.Secret.IsZero() {
		panic("rank: ListenStore without a world size or a secret")
	}
	keys, err := secured(o.Secret, o.PublicName)
	if err != nil {
		return nil, err
	}
	ln, err := bind(addr, o.Ports)
	if err != nil {
		return nil, err
	}
	if o.limiter == nil {
		o.limiter = hostnet.NewLimiter(64 + 2*o.WorldSize) // all ranks may come at once
	}
	s := &Server{
		opts: o, ln: ln, tls: keys, onLeave: o.OnLeave,
		peers: map[int]*serverConn{}, conns: map[*serverConn]struct{}{}, observers: map[*serverConn]struct{}{}, changed: make(chan struct{}),
	}
	s.life, s.end = context.WithCancelCause(context.Background())
	if o.Log != nil {
		s.notes.Write = func(line string) { o.Log("store: %s", line) }
	}
	s.state = newState(o.WorldSize, o.Roster, s.deliver)
	if o.Elastic {
		s.state.group = &membership{lost: map[int]departure{}, calls: map[int]call{}, least: o.Least, after: s.after, absents: s.expect}
		if err := s.journalled(); err != nil {
			s.Close()
			return nil, fmt.Errorf("the job's store cannot continue: %w", err)
		}
		if o.LostAfter > 0 {
			s.wg.Go(s.watch)
		}
	}
	s.wg.Go(s.accept)
	return s, nil
}

func bind(addr string, ports hostnet.Ports) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err == nil && port != "0" {
		ports, err = hostnet.ParsePorts(port)
	}
	if err != nil {
		return nil, fmt.Errorf("the job's store cannot listen on %s: %w", addr, err)
	}
	ln, err := hostnet.Listen(context.Background(), keepalive.Listener(false), host, ports)
	if errors.Is(err, syscall.EADDRINUSE) && port == "0" {
		return nil, fmt.Errorf("the job's store found no free port in launch.port_range = %v on this host; fix: widen the range to at least two ports more than ranks: %w", ports, err)
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("the job's store cannot listen on %s, another process uses that port (often an earlier run that has not ended yet); fix: wait for it, or use a free port such as %s: %w", addr, freePort(addr), err)
	}
	if err != nil {
		return nil, fmt.Errorf("the job's store cannot listen on %s: %w", addr, err)
	}
	return ln, nil
}

func freePort(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "unknown"
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "unknown"
	}
	defer ln.Close()
	return ln.Addr().String()
}

// Addr is where the store listens, with the port it got.
func (s *Server) Addr() *net.TCPAddr { return s.ln.Addr().(*net.TCPAddr) }

func (s *Server) connected() []Peer {
	var l []Peer
	for r := range s.peers {
		l = append(l, s.state.names[r])
	}
	return byRank(l)
}

// Drain waits until all ranks have left, so that the process that hosts the store
// does not disconnect the others early.
func (s *Server) Drain(ctx context.Context) error {
	for {
		s.mu.Lock()
		left, changed := s.connected(), s.changed
		s.mu.Unlock()
		if len(left) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("still connected to the job's store: %s: %w", describe(left), ctx.Err())
		}
	}
}

// Close ends every connection and returns when no goroutine is left. Ranks see
// ErrStoreLost; OnLeave is not called.
func (s *Server) Close() error {
	err := s.shut()
	s.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Done is closed when the server has ended: after Close, or because its journal has failed.
func (s *Server) Done() <-chan struct{} { return s.life.Done() }

// Err is why the journal has failed, nil if it has not. The server has ended then.
func (s *Server) Err() error {
	if err := context.Cause(s.life); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// shut ends every connection.
func (s *Server) shut() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(nil)
	s.closed = true
	for _, r := range s.delays {
		if r != nil {
			r.timer.Stop()
		}
	}
	for c := range s.conns {
		c.Close()
	}
	return s.ln.Close()
}

func (s *Server) accept() {
	hostnet.Acceptor{Limiter: s.opts.limiter, Notes: &s.notes}.Run(s.ln, func(visit *hostnet.Visit) {
		c := &serverConn{Conn: s.tls.Server(visit), visit: visit, since: time.Now(), wake: make(chan struct{}, 1), done: make(chan struct{})}
		if !s.track(c) {
			visit.Leave()
			visit.Close()
			return
		}
		s.wg.Go(func() { s.serve(c) })
	})
}

func (s *Server) track(c *serverConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

// serve handles one connection from the handshake to its end.
func (s *Server) serve(c *serverConn) {
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		delete(s.observers, c)
		s.mu.Unlock()
		c.Close()
	}()
	defer c.visit.Leave()
	if err := s.admit(c); err != nil {
		cause, text := refusal(err)
		if errors.Is(err, errObserved) {
			return
		}
		if no := (*misfit)(nil); errors.As(err, &no) {
			cause, text = no.kind, err.Error()
		}
		s.notes.Say(cause, "refused %s: %s", c.RemoteAddr(), text)
		return
	}
	s.wg.Go(c.send)
	clean, err := s.answer(c)
	close(c.done)
	s.release(c, clean, err)
}

// admit accepts a peer that knows the secret and fits the job.
func (s *Server) admit(c *serverConn) error {
	c.SetDeadline(time.Now().Add(handshakeTime))
	if err := c.Handshake(); err != nil {
		return err
	}
	if !c.visit.Leave() {
		return net.ErrClosed
	}
	f, err := readFrame(c, maxHelloFrame)
	if err != nil {
		return err
	}
	h, err := parseHello(f)
	if err != nil {
		return err
	}
	if h.rank == observer && h.runID == s.opts.RunID {
		return s.watchObserver(c, f.id)
	}
	c.rank = h.rank
	peer := Peer{Rank: h.rank, Host: h.host, Addr: c.RemoteAddr().String()}
	if no := s.enlist(c, h, peer); no != nil {
		writeFrame(c, frame{op: opRefused, id: f.id, body: fields{}.text(no.Reason).flag(no.again).flag(no.otherJob)})
		kind, _, _ := strings.Cut(no.Reason, ":")
		return &misfit{kind: kind, text: fmt.Sprintf("%s on %s: %s", peer, h.host, no.Reason)}
	}
	if err := writeFrame(c, frame{op: opOK, id: f.id}); err != nil {
		s.release(c, false, err)
		return err
	}
	return c.SetDeadline(time.Time{})
}

// misfit is the error for a peer that knows the secret but does not fit the job.
type misfit struct{ kind, text string }

func (m *misfit) Error() string { return m.text }

// enlist registers the peer, or returns why it is refused.
func (s *Server) enlist(c *serverConn, h hello, p Peer) *RefusedError {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.opts
	switch {
	case h.runID != o.RunID:
		return &RefusedError{Reason: fmt.Sprintf("wrong job: this is run %q, the rank belongs to run %q", o.RunID, h.runID), otherJob: true}
	case h.generation != o.Generation:
		return &RefusedError{Reason: fmt.Sprintf("wrong start of the job: this is start %d, the rank belongs to start %d", o.Generation, h.generation), again: h.generation > o.Generation}
	case h.size != o.WorldSize:
		return &RefusedError{Reason: fmt.Sprintf("wrong world size: this job has %d ranks, the rank expects %d", o.WorldSize, h.size)}
	case h.rank < 0 || h.rank >= o.WorldSize:
		return &RefusedError{Reason: fmt.Sprintf("wrong rank: %d is outside a world of %d", h.rank, o.WorldSize)}
	case s.peers[h.rank] != nil: // of a process that has died, perhaps, whose end has not been noticed yet
		return &RefusedError{Reason: fmt.Sprintf("duplicate rank: %s is already connected", s.state.names[h.rank]), again: o.Elastic}
	}
	c.heard.note(&s.pulse)
	s.peers[h.rank] = c
	s.state.join(p)
	s.broken(c)
	return nil
}

// answer handles requests until the peer leaves.
func (s *Server) answer(c *serverConn) (clean bool, err error) {
	for {
		f, err := readFrame(c, maxFrame)
		if c.silent.Load() {
			return false, silence(s.opts.LostAfter)
		}
		if err != nil {
			return false, err
		}
		c.heard.note(&s.pulse)
		if f.op == opBye {
			return true, nil
		}
		s.mu.Lock()
		err = s.state.ask(request{c.rank, f.id}, f)
		s.mu.Unlock()
		if err != nil {
			return false, err
		}
	}
}

func (s *Server) release(c *serverConn, clean bool, err error) {
	s.mu.Lock()
	delete(s.peers, c.rank)
	s.state.leave(c.rank, clean, whyLeft(err))
	tell := s.onLeave
	if clean || s.closed {
		tell = nil
	}
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	if tell != nil {
		tell(c.rank, c.since, fmt.Errorf("rank %d (%s) disconnected from the store unexpectedly: %w", c.rank, c.RemoteAddr(), err))
	}
}

// whyLeft describes the error of a connection, "" if it was just closed.
func whyLeft(err error) string {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return ""
	}
	return keepalive.Explain(err).Error()
}

// deliver queues an answer; state calls it under the server's lock.
func (s *Server) deliver(t request, f frame) {
	switch c := s.peers[t.rank]; {
	case c == nil:
	case len(s.outbox) > 0:
		s.outbox = append(s.outbox, outgoing{to: c, frame: f})
	default:
		c.queue(f)
	}
}

// serverConn is a peer's connection with its own queue of answers, so that a slow
// peer does not delay the others.
type serverConn struct {
	*tls.Conn
	visit *hostnet.Visit
	rank  int
	since time.Time
	wake  chan struct{} // something is queued
	done  chan struct{} // the peer has left

	heard  heard       // see Server.watch
	silent atomic.Bool // it was closed because nothing came

	mu  sync.Mutex
	out []frame
}

// Close closes the connection at once, without the close_notify of TLS, which would
// block on a peer that does not read.
func (c *serverConn) Close() error { return c.visit.Close() }

func (c *serverConn) queue(f frame) {
	c.mu.Lock()
	c.out = append(c.out, f)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *serverConn) send() {
	for {
		select {
		case <-c.wake:
		case <-c.done:
			return
		}
		c.mu.Lock()
		batch := c.out
		c.out = nil
		c.mu.Unlock()
		for _, f := range batch {
			c.SetWriteDeadline(time.Now().Add(writeTime))
			if writeFrame(c, f) != nil {
				c.Close() // which ends answer, and the rank leaves
				return
			}
		}
	}
}
