package rank

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/base/keepalive"
	"github.com/trainctl/trainctl/core/job/secret"
)

// DialOptions describe the rank that connects to a store.
type DialOptions struct {
	RunID      string
	Secret     secret.Secret // required: stores refuse connections without it
	Rank, Size int
	Generation int // restart count of the group

	// PublicName identifies the job to ranks that search for its store: a store
	// with this name and another secret is taken for this job's store. It is equal
	// on all ranks, not secret, and used only with several addresses.
	PublicName string

	Host string // empty: the host's name

	// OnWait is called every ReportEvery (0: 10 s) with the progress of a call that
	// waits, from the goroutine of that call.
	OnWait      func(Progress)
	ReportEvery time.Duration

	certain time.Duration // for tests; 0: defaultCertain
	members *Members      // that get what the store announces
}

func (o DialOptions) filled() DialOptions {
	if o.Host == "" {
		o.Host = hostname()
	}
	if o.OnWait == nil {
		o.OnWait = func(Progress) {}
	}
	if o.ReportEvery <= 0 {
		o.ReportEvery = 10 * time.Second
	}
	if o.certain == 0 {
		o.certain = defaultCertain
	}
	return o
}

// Client is a rank's connection to the store of its job.
type Client struct {
	opts  DialOptions
	addr  string
	conn  *tls.Conn
	host  *Server // the store, if this process hosts it
	id    atomic.Uint64
	count atomic.Int64 // messages sent and received
	lost  chan struct{}
	ended sync.WaitGroup

	write sync.Mutex // one frame at a time

	mu      sync.Mutex
	pending map[uint64]chan frame
	rounds  map[string]int
	cause   error // why the connection ended; nil where it was closed
	members *Members
	life    context.Context // ended by Close
	leave   context.CancelFunc
	next    *Client // has replaced this one, see Members.Follow

	pulse    pulse
	heard    heard // of the server, see watch
	watching sync.Once
}

// DialStore connects to the store at addr. It retries until this job's store
// answers or ctx ends, since the host may not be up yet. It returns a *TimeoutError
// after ctx's deadline and, without retrying, a *RefusedError if the store refuses
// this rank and a *SecretError if it has another secret.
func DialStore(ctx context.Context, addr string, o DialOptions) (*Client, error) {
	return search(ctx, []string{addr}, o.filled())
}

func dialOnce(ctx context.Context, addr string, keys *hostnet.TLS, o DialOptions) (*Client, error) {
	d := keepalive.Dialer(false)
	d.Timeout = handshakeTime
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	conn := keys.Client(raw)
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	err = greet(conn, o)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		raw.Close()
		if errors.As(err, new(*SecretError)) || errors.As(err, new(*RefusedError)) {
			return nil, err // these include the address
		}
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	c := &Client{opts: o, addr: addr, members: o.members, conn: conn, lost: make(chan struct{}), pending: map[uint64]chan frame{}, rounds: map[string]int{}}
	c.life, c.leave = context.WithCancel(context.Background())
	c.ended.Go(c.receive)
	return c, nil
}

// greet authenticates both sides and then sends the hello.
func greet(conn *tls.Conn, o DialOptions) error {
	conn.SetDeadline(time.Now().Add(handshakeTime))
	switch err := conn.Handshake(); {
	case errors.Is(err, hostnet.ErrOtherSecret):
		return &SecretError{Addr: conn.RemoteAddr().String(), sameJob: errors.Is(err, hostnet.ErrSameName)}
	case errors.Is(err, hostnet.ErrUnauthenticated):
		return ErrNotThisJob
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNotThisJob, err)
	}
	h := hello{rank: o.Rank, size: o.Size, generation: o.Generation, runID: o.RunID, host: o.Host}
	if err := writeFrame(conn, h.frame(0)); err != nil {
		return err
	}
	f, err := readFrame(conn, maxHelloFrame)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotThisJob, err) // a server that does not know our key reports it only now
	}
	if f.op == opRefused {
		p := &parser{rest: f.body}
		return &RefusedError{Addr: conn.RemoteAddr().String(), Reason: p.text(), again: p.flag(), otherJob: p.flag()}
	}
	return conn.SetDeadline(time.Time{})
}

// Close leaves the job and closes the connection. The process that hosts the store
// waits up to ten seconds for the others to leave.
func (c *Client) Close() error {
	if next := c.successor(); next != nil {
		next.Close()
	}
	c.post(frame{op: opBye})
	c.conn.CloseWrite() // so that a reset does not cut off opBye
	c.conn.SetReadDeadline(time.Now().Add(time.Second))
	c.ended.Wait()
	if c.host == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(c.host.Drain(ctx), c.host.Close())
}

func (c *Client) post(f frame) error {
	c.write.Lock()
	defer c.write.Unlock()
	c.conn.SetWriteDeadline(time.Now().Add(writeTime))
	c.count.Add(1)
	return writeFrame(c.conn, f)
}

// Messages is how many messages the rank and the store have exchanged so far.
func (c *Client) Messages() int { return int(c.count.Load()) }

// receive hands answers to the calls that wait for them.
func (c *Client) receive() {
	for {
		f, err := readFrame(c.conn, maxFrame)
		if err != nil {
			c.ending(err)
			break
		}
		c.count.Add(1)
		c.mu.Lock()
		answer, members := c.pending[f.id], c.members
		c.mu.Unlock()
		switch f.op {
		case opPing:
			c.answerPing(f)
			continue
		case opBroken, opWanted:
			if members != nil {
				members.told(f)
			}
			continue
		}
		select {
		case answer <- f: // it has room for all frames that a store sends, see call; a nil channel is never ready
		default:
		}
	}
	c.conn.Close() // the error does not matter: the connection has ended
	close(c.lost)
}

// ending keeps the error that ended the connection, unless one side just closed it.
func (c *Client) ending(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		c.cause = keepalive.Explain(err)
	}
}

// call asks and waits for the answer.
func (c *Client) call(ctx context.Context, what Progress, o op, body fields) (*parser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	id := c.id.Add(1)
	// Room for the final answer, one progress report and one cancellation. There
	// are never more, since a report is requested only after the previous one
	// arrived.
	answer := make(chan frame, 3)
	c.mu.Lock()
	c.pending[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
	}()
	switch err := c.post(frame{op: o, id: id, body: body}); {
	case errors.Is(err, errFrame):
		return nil, fmt.Errorf("%s %q: %w", what.Op, what.Key, err)
	case err != nil:
		c.conn.NetConn().Close() // nothing can follow a part of a frame
		<-c.lost
		return nil, c.broken(what, err)
	}
	return c.await(ctx, what, id, answer)
}

func (c *Client) await(ctx context.Context, what Progress, id uint64, answer <-chan frame) (*parser, error) {
	start := time.Now()
	ticker := time.NewTicker(c.opts.ReportEvery)
	defer ticker.Stop()
	polled := false
	for {
		select {
		case f := <-answer:
			if f.op != opProgress {
				return c.conclude(what, f)
			}
			polled = false
			c.opts.OnWait(withPeers(what, f, start))
		case <-ticker.C:
			if !polled {
				polled = true
				c.post(frame{op: opPoll, body: fields{}.number(int64(id))})
			}
		case <-ctx.Done():
			return c.cancelWait(ctx, what, id, answer, start)
		case <-c.lost:
			return c.last(what, answer)
		}
	}
}

// last returns an answer that came before the connection broke, if there is one.
func (c *Client) last(what Progress, answer <-chan frame) (*parser, error) {
	for {
		select {
		case f := <-answer:
			if f.op != opProgress {
				return c.conclude(what, f)
			}
		default:
			return nil, c.broken(what, nil)
		}
	}
}

func (c *Client) broken(what Progress, err error) error {
	c.mu.Lock()
	err = cmp.Or(c.cause, err)
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s %q: %w: %w", what.Op, what.Key, ErrStoreLost, err)
	}
	return fmt.Errorf("%s %q: %w", what.Op, what.Key, ErrStoreLost)
}

// cancelWait cancels the wait at the store, which answers with who is missing.
func (c *Client) cancelWait(ctx context.Context, what Progress, id uint64, answer <-chan frame, start time.Time) (*parser, error) {
	c.post(frame{op: opCancel, body: fields{}.number(int64(id))})
	patience := time.NewTimer(2 * time.Second)
	defer patience.Stop()
	for {
		select {
		case f := <-answer:
			switch f.op {
			case opProgress:
				continue
			case opCancelled:
				return nil, endOf(ctx, withPeers(what, f, start), nil)
			}
			return c.conclude(what, f) // the answer came before the cancellation
		case <-c.lost:
			return nil, c.broken(what, nil)
		case <-patience.C:
			what.Waited = time.Since(start)
			return nil, endOf(ctx, what, errors.New("the store itself does not answer"))
		}
	}
}

func endOf(ctx context.Context, p Progress, cause error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		p.Cause = cause
		return &TimeoutError{Progress: p}
	}
	return fmt.Errorf("%s %q: %w", p.Op, p.Key, ctx.Err())
}

// withPeers adds what a progress frame says about arrived and missing ranks.
func withPeers(what Progress, f frame, start time.Time) Progress {
	p := &parser{rest: f.body}
	what.Arrived, what.Missing, what.Waited = p.peers(), p.peers(), time.Since(start)
	return what
}

// conclude turns a final answer into a result.
func (c *Client) conclude(what Progress, f frame) (*parser, error) {
	p := &parser{rest: f.body}
	switch f.op {
	case opOK:
		return p, nil
	case opPeerLeft:
		peers, clean, why := p.peers(), p.flag(), p.text()
		if p.err == nil && len(peers) == 1 {
			return nil, fmt.Errorf("%s %q: %w", what.Op, what.Key, &PeerLeftError{Peer: peers[0], Clean: clean, Cause: why})
		}
	case opError:
		return nil, fmt.Errorf("%s %q: %s", what.Op, what.Key, p.text())
	}
	return nil, fmt.Errorf("%s %q: %w from the store", what.Op, what.Key, errFrame)
}
