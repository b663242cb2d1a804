package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/base/keepalive"
	"github.com/trainctl/trainctl/plugins/internal/instance"
)

const (
	handshakeTimeout = 5 * time.Second
	maxHandshakes    = 64 // concurrent handshakes, plus one per expected connection
)

// Connect connects to every other rank: the higher rank dials. Within a host it uses
// unix sockets, which also pass the arenas' descriptors. A group that uses
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
	defer b.listener.close()
	if b.group.WorldSize == 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.set.connect)
	defer cancel()
	defer context.AfterFunc(b.life.Context, cancel)()
	b.topology = topologyOf(all, b.group.Rank)
	defer b.dropConns()
	if err := b.join(ctx, all); err != nil {
		return err
	}
	if b.topology.shares() {
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

// streams returns the number of connections to a rank.
func (b *Backend) streams(rank int) int {
	if b.near(rank) {
		return 1
	}
	return b.set.connections
}

// usesTLS reports whether the connections to a rank use TLS: those within a host do
// not.
func (b *Backend) usesTLS(rank int) bool { return b.set.tls && !b.near(rank) }

func (b *Backend) near(rank int) bool {
	return rank >= 0 && rank < len(b.topology.near) && b.topology.near[rank]
}

// joining is the state of one Connect.
type joining struct {
	b       *Backend
	ctx     context.Context
	total   int // connections to make
	tlsConn *hostnet.TLS
	arrived chan arrival
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
func (b *Backend) join(ctx context.Context, all []endpoint) error {
	ctx, cancel := context.WithCancel(ctx)
	b.conns = make([][]net.Conn, b.group.WorldSize)
	total := 0
	for r := range b.conns {
		if r != b.group.Rank {
			b.conns[r] = make([]net.Conn, b.streams(r))
			total += len(b.conns[r])
		}
	}
	j := &joining{b: b, ctx: ctx, total: total, arrived: make(chan arrival, total), claimed: map[[2]int]bool{}}
	j.notes.Write = func(line string) { b.log().Warn(line) }
	if b.set.tls {
		var err error
		if j.tlsConn, err = tlsKeys(b.group.Secret, b.group.JobID); err != nil {
			cancel()
			return fmt.Errorf("backend tcp: tls: %w", err)
		}
	}
	defer j.running.Wait()
	defer b.listener.close()
	defer cancel()
	j.running.Go(func() { j.accept(b.listener.tcp) })
	if b.listener.unix != nil {
		j.running.Go(func() { j.accept(b.listener.unix) })
	}
	for r := range b.group.Rank {
		network, address := "tcp", all[r].TCP
		if b.topology.near[r] {
			network, address = "unix", all[r].Unix
		}
		for stream := range b.streams(r) {
			j.running.Go(func() { j.dial(r, stream, network, address) })
		}
	}
	return j.collect()
}

// collect waits for all connections.
func (j *joining) collect() error {
	b := j.b
	for range j.total {
		select {
		case a := <-j.arrived:
			if a.err != nil {
				return fmt.Errorf("backend tcp: connect to rank %d: %w", a.rank, a.err)
			}
			a.conn.SetDeadline(time.Time{})
			b.conns[a.rank][a.stream] = a.conn
		case <-j.ctx.Done():
			return j.missing()
		}
	}
	return nil
}

// missing names the ranks that did not connect.
func (j *joining) missing() error {
	if j.b.life.Closed() {
		return instance.ErrClosed
	}
	var names []string
	for r, streams := range j.b.conns {
		if slices.Contains(streams, nil) {
			names = append(names, fmt.Sprint(r))
		}
	}
	return fmt.Errorf("backend tcp: no connection with rank %s: %w", strings.Join(names, ", "), context.Cause(j.ctx))
}

// dial tries to connect to a rank until it accepts or refuses, or time is up.
func (j *joining) dial(rank, stream int, network, address string) {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		conn, err := j.dialOnce(rank, stream, network, address)
		var no refusal
		switch {
		case err == nil, errors.As(err, &no), errors.Is(err, errNoProof):
			j.arrived <- arrival{rank, stream, conn, err}
			return
		case j.ctx.Err() != nil:
			return
		}
		select {
		case <-time.After(pause):
		case <-j.ctx.Done():
			return
		}
	}
}

func (j *joining) dialOnce(rank, stream int, network, address string) (net.Conn, error) {
	d := keepalive.Dialer(true)
	conn, err := d.DialContext(j.ctx, network, address)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(j.ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
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
	from, rank, stream := conn.RemoteAddr(), int(h.from), int(h.stream)
	if err == nil {
		conn, err = j.withTLS(conn, rank, true)
	} else {
		conn.Close()
	}
	if err == nil {
		j.b.log().Debug("admitted", "peer", rank, "from", from)
		j.arrived <- arrival{rank, stream, conn, nil}
		return
	}
	if claimed {
		j.release(rank, stream)
	}
	if j.ctx.Err() == nil {
		j.notes.Say(refusalCause(err), "refused a connection from %v: %v", from, err)
	}
}

func (j *joining) claim(rank, stream int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
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
