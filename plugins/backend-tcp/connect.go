package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/base/keepalive"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/internal/instance"
)

const (
	handshakeTimeout = 5 * time.Second
	maxHandshakes    = 64 // concurrent handshakes, plus one per expected connection
)

// Connect connects to the ranks that this one needs (see topology): the higher rank dials. Within a
// host it uses unix sockets, which also pass the arenas' descriptors. A group that uses
// sockets then measures the network.
func (b *Backend) Connect(ctx context.Context, endpoints [][]byte) error {
	if err := b.life.Begin(); err != nil {
		return err
	}
	defer b.life.End()
	if b.listener == nil {
		return errors.New("backend tcp: Connect before Listen")
	}
	all, err := instance.ParseEndpoints[endpoint](endpoints, b.group.WorldSize, endpointVersion)
	if err != nil {
		return fmt.Errorf("backend tcp: %w", err)
	}
	b.place(all)
	if b.group.WorldSize == 1 {
		b.listener.close()
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.set.connect)
	defer cancel()
	defer context.AfterFunc(b.life.Context, cancel)()
	defer b.dropConns()
	if err := b.join(ctx, all); err != nil {
		return err
	}
	if b.topology.hosts() < b.group.WorldSize {
		if b.local, err = b.shareMemory(ctx); err != nil {
			return fmt.Errorf("backend tcp: shared memory: %w", err)
		}
	}
	if err := b.makeLinks(); err != nil {
		return fmt.Errorf("backend tcp: %w", err)
	}
	if err := b.fit(ctx); err != nil {
		return fmt.Errorf("backend tcp: measuring the connections: %w", err)
	}
	return nil
}

// place sets the topology. An algorithm that was asked for by name runs between ranks instead of
// hosts, unless all of them share memory.
func (b *Backend) place(all []endpoint) {
	b.topology = topologyOf(all, b.group.Rank, false)
	if b.set.algorithm != algorithmAuto && b.topology.hosts() > 1 {
		b.topology = topologyOf(all, b.group.Rank, true)
	}
}

// makeLinks turns the connections into links. Each rank starts with the next higher
// one, so that not all begin with the same.
func (b *Backend) makeLinks() error {
	for k := 1; k < b.group.WorldSize; k++ {
		r := (b.group.Rank + k) % b.group.WorldSize
		for stream, conn := range b.conns[r] {
			l, err := newLink(r, stream, len(b.conns[r]), conn)
			if err != nil {
				return err
			}
			b.links, b.conns[r][stream] = append(b.links, l), nil
		}
	}
	b.poller = newPoller()
	return nil
}

// dropConns closes the connections that did not become links.
func (b *Backend) dropConns() {
	for _, streams := range b.conns {
		for _, c := range streams {
			if c != nil {
				c.Close()
			}
		}
	}
	b.conns = nil
}

// streams returns the number of connections to a rank, of those that are there from the start.
func (b *Backend) streams(rank int) int {
	if b.topology.near(rank) {
		return 1
	}
	return b.set.connections
}

// usesTLS reports whether the connections to a rank use TLS: those within a host do
// not.
func (b *Backend) usesTLS(rank int) bool { return b.set.tls && !b.topology.near(rank) }

// joining connects this rank with others. Where some ranks have no connections with each other, it
// answers until the backend is closed.
type joining struct {
	b       *Backend
	all     []endpoint
	ctx     context.Context // until it stops
	stop    context.CancelFunc
	total   int // connections to make
	began   time.Time
	tlsConn *hostnet.TLS
	arrived chan arrival
	callers chan arrival // connections for transfers; at most one from each rank, see claim
	running sync.WaitGroup
	notes   hostnet.Notes

	mu      sync.Mutex
	claimed map[[2]int]bool // rank and stream
}

// arrival is a connection to a rank, or why there is none.
type arrival struct {
	rank, stream int
	conn         net.Conn
	err          error
}

// join fills b.conns.
func (b *Backend) join(ctx context.Context, all []endpoint) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b.conns = make([][]net.Conn, b.group.WorldSize)
	total := 0
	for r := range b.conns {
		if b.topology.peers(r) {
			b.conns[r] = make([]net.Conn, b.streams(r))
			total += len(b.conns[r])
		}
	}
	j := &joining{b: b, all: all, total: total, began: time.Now(), arrived: make(chan arrival, total), claimed: map[[2]int]bool{}}
	j.callers = make(chan arrival, b.group.WorldSize)
	j.ctx, j.stop = context.WithCancel(b.life.Context)
	j.notes.Write = func(line string) { b.log().Warn(line) }
	if b.set.tls {
		if j.tlsConn, err = tlsKeys(b.group.Secret, b.group.JobID); err != nil {
			j.stop()
			return fmt.Errorf("backend tcp: tls: %w", err)
		}
	}
	b.door = j
	j.running.Go(func() { j.accept(b.listener.tcp) })
	if b.listener.unix != nil {
		j.running.Go(func() { j.accept(b.listener.unix) })
	}
	for r := range b.group.Rank {
		for stream := range b.conns[r] {
			j.running.Go(func() { j.dial(ctx, r, stream) })
		}
	}
	if err = j.collect(ctx); err != nil || b.topology.full() {
		cancel()
		j.close()
	}
	return err
}

// close stops answering.
func (j *joining) close() {
	j.stop()
	j.b.listener.close()
	j.running.Wait()
	for _, waiting := range []chan arrival{j.arrived, j.callers} {
		for len(waiting) > 0 {
			if a := <-waiting; a.conn != nil {
				a.conn.Close()
			}
		}
	}
}

// address returns where a rank listens.
func (j *joining) address(rank int) (network, address string) {
	if j.b.topology.near(rank) {
		return "unix", j.all[rank].Unix
	}
	return "tcp", j.all[rank].TCP
}

// collect waits for all connections.
func (j *joining) collect(ctx context.Context) error {
	b := j.b
	for range j.total {
		select {
		case a := <-j.arrived:
			if a.err != nil {
				return fmt.Errorf("backend tcp: connect to rank %d: %w", a.rank, a.err)
			}
			b.conns[a.rank][a.stream] = a.conn
		case <-ctx.Done():
			return j.missing(ctx)
		}
	}
	return nil
}

// missing names the ranks that did not connect.
func (j *joining) missing(ctx context.Context) error {
	if j.b.life.Closed() {
		return instance.ErrClosed
	}
	var missing []int
	for r, streams := range j.b.conns {
		if slices.Contains(streams, nil) {
			missing = append(missing, r)
		}
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("backend tcp: no connection with ranks %v: %w", missing, cause)
	}
	return &sdk.StallError{Bucket: -1, Missing: missing, Waited: time.Since(j.began)}
}

// dial tries to connect to a rank until it accepts or refuses, or time is up.
func (j *joining) dial(ctx context.Context, rank, stream int) {
	network, address := j.address(rank)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		conn, err := j.dialOnce(ctx, rank, stream, network, address)
		var no refusal
		switch {
		case err == nil, errors.As(err, &no), errors.Is(err, errNoProof):
			j.arrived <- arrival{rank, stream, conn, err}
			return
		case ctx.Err() != nil:
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

func (j *joining) dialOnce(ctx context.Context, rank, stream int, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(j.ctx, cancel)()
	d := keepalive.Dialer(true)
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := j.b.dialHandshake(conn, rank, stream); err != nil {
		conn.Close()
		return nil, err
	}
	return j.withTLS(conn, rank, false)
}

// withTLS starts TLS on a connection after the handshake, if the rank uses it.
func (j *joining) withTLS(conn net.Conn, rank int, server bool) (net.Conn, error) {
	if !j.b.usesTLS(rank) {
		return conn, nil
	}
	s, err := startTLS(conn, j.tlsConn, server)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("tls: %w", err)
	}
	return s, nil
}

// accept answers connections until the listener is closed.
func (j *joining) accept(l net.Listener) {
	a := hostnet.Acceptor{Limiter: hostnet.NewLimiter(maxHandshakes + j.total), Notes: &j.notes}
	a.Run(l, func(visit *hostnet.Visit) { j.running.Go(func() { j.answer(visit) }) })
}

// answer accepts one connection or refuses it with a line in the log.
func (j *joining) answer(visit *hostnet.Visit) {
	defer visit.Leave()
	conn := visit.Conn
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
	stop := context.AfterFunc(j.ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	claimed := false
	h, err := j.b.receive(visit, func(rank, stream int) bool {
		claimed = j.claim(rank, stream)
		return claimed
	})
	from, rank, stream := conn.RemoteAddr(), int(h.from), h.number()
	if err == nil {
		conn, err = j.withTLS(conn, rank, true)
	} else {
		conn.Close()
	}
	if err == nil {
		j.b.log().Debug("admitted", "peer", rank, "from", from)
		j.deliver(arrival{rank, stream, conn, nil}, stop)
		return
	}
	if claimed {
		j.release(rank, stream)
	}
	if j.ctx.Err() == nil {
		j.notes.Say(refusalCause(err), "refused a connection from %v: %v", from, err)
	}
}

// deliver passes on a connection that was answered, if its deadline still can be lifted: nothing may
// change it any more once another goroutine has the connection.
func (j *joining) deliver(a arrival, stop func() bool) {
	if !stop() {
		a.conn.Close()
		return
	}
	a.conn.SetDeadline(time.Time{})
	if a.stream == pairStream {
		j.callers <- a
	} else {
		j.arrived <- a
	}
}

func (j *joining) claim(rank, stream int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if stream != pairStream && !j.b.topology.peers(rank) {
		return false
	}
	if j.claimed[[2]int{rank, stream}] {
		return false
	}
	j.claimed[[2]int{rank, stream}] = true
	return true
}

func (j *joining) release(rank, stream int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.claimed, [2]int{rank, stream})
}

// refusalCause classifies refusals: the log gets one line a minute of each class.
func refusalCause(err error) string {
	if no := (refusal{}); errors.As(err, &no) {
		return no.reply.String()
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, errNoProof):
		return "secret"
	case errors.Is(err, errHungUp):
		return "closed"
	case errors.Is(err, errProtocol):
		return "protocol"
	}
	return "handshake"
}
