package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	handshakeTimeout = 5 * time.Second
	maxKnocking      = 64 // handshakes answered at once
	keepAlive        = 5 * time.Second
)

// Connect makes one connection to every other rank: the higher rank dials. On
// one host they are unix sockets, which pass the arenas' descriptors as well.
func (b *Backend) Connect(ctx context.Context, endpoints [][]byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing.Load() {
		return errClosed
	}
	if b.door == nil {
		return errors.New("backend tcp: Connect before Listen")
	}
	all, err := b.parseAll(endpoints)
	if err != nil {
		return err
	}
	defer b.door.close()
	if b.group.WorldSize == 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.set.connect)
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	b.topology = topologyOf(all, b.group.Rank)
	if err := b.join(ctx, all); err != nil {
		return err
	}
	if b.topology.shares() {
		if b.local, err = b.shareMemory(ctx); err != nil {
			return fmt.Errorf("backend tcp: shared memory: %w", err)
		}
	}
	b.sender = startSender()
	return nil
}

func (b *Backend) parseAll(endpoints [][]byte) ([]endpoint, error) {
	if len(endpoints) != b.group.WorldSize {
		return nil, fmt.Errorf("backend tcp: %d endpoints for a world of %d", len(endpoints), b.group.WorldSize)
	}
	all := make([]endpoint, len(endpoints))
	for r, raw := range endpoints {
		var err error
		if all[r], err = parseEndpoint(raw, r); err != nil {
			return nil, fmt.Errorf("backend tcp: %w", err)
		}
	}
	return all, nil
}

// joining is the state of one Connect.
type joining struct {
	b       *Backend
	ctx     context.Context
	arrived chan arrival
	running sync.WaitGroup

	mu      sync.Mutex
	claimed map[int]bool
}

// arrival is a connection to a rank, or why there is none.
type arrival struct {
	rank int
	conn net.Conn
	err  error
}

// join fills b.peers.
func (b *Backend) join(ctx context.Context, all []endpoint) error {
	ctx, cancel := context.WithCancel(ctx)
	j := &joining{b: b, ctx: ctx, arrived: make(chan arrival, b.group.WorldSize), claimed: map[int]bool{}}
	defer j.running.Wait()
	defer b.door.close()
	defer cancel()
	j.running.Go(func() { j.accept(b.door.tcp) })
	if b.door.unix != nil {
		j.running.Go(func() { j.accept(b.door.unix) })
	}
	for r := range b.group.Rank {
		network, address := "tcp", all[r].TCP
		if b.topology.near[r] {
			network, address = "unix", all[r].Unix
		}
		j.running.Go(func() { j.dial(r, network, address) })
	}
	return j.collect()
}

// collect takes connections until none is missing.
func (j *joining) collect() error {
	b := j.b
	for range b.group.WorldSize - 1 {
		select {
		case a := <-j.arrived:
			if a.err != nil {
				return fmt.Errorf("backend tcp: connect to rank %d: %w", a.rank, a.err)
			}
			if t, ok := a.conn.(*net.TCPConn); ok {
				t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive, Count: 3})
			}
			a.conn.SetDeadline(time.Time{})
			b.peers[a.rank] = &peer{rank: a.rank, conn: a.conn}
		case <-j.ctx.Done():
			return j.missing()
		}
	}
	return nil
}

// missing names the ranks that did not connect.
func (j *joining) missing() error {
	if j.b.closing.Load() {
		return errClosed
	}
	var names []string
	for r, p := range j.b.peers {
		if p == nil && r != j.b.group.Rank {
			names = append(names, fmt.Sprint(r))
		}
	}
	return fmt.Errorf("backend tcp: no connection with rank %s: %w", strings.Join(names, ", "), context.Cause(j.ctx))
}

// dial calls rank until it answers, refuses, or time is up.
func (j *joining) dial(rank int, network, address string) {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		conn, err := j.dialOnce(rank, network, address)
		var no refusal
		switch {
		case err == nil, errors.As(err, &no), errors.Is(err, errNoProof):
			j.arrived <- arrival{rank, conn, err}
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

func (j *joining) dialOnce(rank int, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(j.ctx, network, address)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(j.ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	if err := j.b.greet(conn, rank); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// accept answers the door until it is closed.
func (j *joining) accept(l net.Listener) {
	places := make(chan struct{}, maxKnocking)
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		select {
		case places <- struct{}{}:
		case <-j.ctx.Done():
			conn.Close()
			return
		}
		j.running.Go(func() {
			j.answer(conn)
			<-places
		})
	}
}

// answer admits one caller or turns it away with a line in the log.
func (j *joining) answer(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
	stop := context.AfterFunc(j.ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	claimed := false
	rank, err := j.b.receive(conn, func(rank int) bool {
		claimed = j.claim(rank)
		return claimed
	})
	if err == nil {
		j.arrived <- arrival{rank, conn, nil}
		return
	}
	conn.Close()
	if claimed {
		j.release(rank)
	}
	if j.ctx.Err() == nil {
		j.b.log().Warn("refused a connection", "from", conn.RemoteAddr(), "cause", err)
	}
}

func (j *joining) claim(rank int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.claimed[rank] {
		return false
	}
	j.claimed[rank] = true
	return true
}

func (j *joining) release(rank int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.claimed, rank)
}
