package rank

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// EnvStoreFD is the environment variable with the descriptor from which a rank reads, line by
// line, where the store is whenever another process hosts it.
const EnvStoreFD = "TRAINCTL_STORE_FD"

// Moves delivers the addresses that this rank's launcher sends; nil if the store stays where it
// is. Its first call keeps the descriptor from child processes.
func Moves() <-chan string { return moves() }

var moves = sync.OnceValue(func() <-chan string {
	fd, err := strconv.Atoi(os.Getenv(EnvStoreFD))
	if err != nil || fd < 3 {
		return nil
	}
	syscall.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "store")
	addrs := make(chan string)
	go func() {
		defer f.Close()
		defer close(addrs)
		for lines := bufio.NewScanner(f); lines.Scan(); {
			addrs <- lines.Text()
		}
	}()
	return addrs
})

// Follow makes the members survive their store: when the connection to it is lost, Regroup waits
// until they are connected to it again, at the same address or at the next of moves. The group
// counts as broken then.
func (m *Members) Follow(moves <-chan string) {
	m.mu.Lock()
	m.linked = make(chan struct{})
	m.mu.Unlock()
	go m.follow(m.client, moves)
}

// link is the current connection. The channel is closed when there is another one.
func (m *Members) link() (*Client, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.client, m.linked
}

func (m *Members) follow(c *Client, moves <-chan string) {
	addr := c.addr
	for {
		select {
		case <-c.lost:
		case next, open := <-moves:
			if !open {
				return // the launcher is gone, and this rank ends too
			}
			if addr == next {
				continue
			}
			addr = next
			c.conn.NetConn().Close()
			<-c.lost
		}
		if c.closed() {
			return
		}
		m.fail()
		var open bool
		if c, open = m.reconnect(c, &addr, moves); !open {
			return
		}
	}
}

// fail makes the current group count as broken.
func (m *Members) fail() {
	m.mu.Lock()
	m.broken = max(m.broken, m.epoch)
	abort := m.abort
	m.mu.Unlock()
	if abort != nil {
		abort()
	}
}

// reconnect connects to the store at addr, or at an address that comes meanwhile.
func (m *Members) reconnect(old *Client, addr *string, moves <-chan string) (c *Client, open bool) {
	o := old.opts
	o.members = m
	for {
		open = false
		ctx, cancel := context.WithCancel(context.Background())
		found := make(chan *Client, 1)
		go func(at string) {
			defer close(found)
			for ctx.Err() == nil {
				if c, err := DialStore(ctx, at, o); err == nil {
					found <- c
					return
				}
				select { // a store that refuses this rank may be another one's by now
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
		}(*addr)
		var next string
		select {
		case c = <-found:
			cancel()
			return c, old.replaced(m, c)
		case next, open = <-moves:
		case <-old.life.Done():
		}
		cancel()
		if c := <-found; c != nil {
			c.Close()
		}
		if !open {
			return nil, false
		}
		*addr = next
	}
}

// replaced makes another connection that of the members, unless this one was closed.
func (c *Client) replaced(m *Members, next *Client) bool {
	if !c.succeed(next) {
		next.Close()
		return false
	}
	m.mu.Lock()
	m.client = next
	close(m.linked)
	m.linked = make(chan struct{})
	m.mu.Unlock()
	return true
}

// succeed makes Close close another connection too, unless it was called already.
func (c *Client) succeed(next *Client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = next
	return !c.closed()
}

// successor makes closed true, and returns the connection that has replaced this one.
func (c *Client) successor() *Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave()
	return c.next
}

// closed reports whether Close was called.
func (c *Client) closed() bool { return c.life.Err() != nil }

// callRegroup calls Regroup at the store, and again if another process hosts it meanwhile.
func (m *Members) callRegroup(ctx context.Context, e Entry, mine []byte) (*parser, error) {
	for {
		c, linked := m.link()
		p, err := c.call(ctx, Progress{Op: "regroup"}, opRegroup, fields{}.number(int64(e)).bytes(mine))
		if !errors.Is(err, ErrStoreLost) || linked == nil {
			return p, err
		}
		select {
		case <-linked:
		case <-ctx.Done():
			return nil, endOf(ctx, Progress{Op: "regroup"}, err)
		}
	}
}

// observer is the rank of a connection that only shows whether the store is there.
const observer = -1

// Observe connects to a store and returns when the connection ends, for one reason because the store was silent
// (Silent), or with the error that kept it from being made. connected, which may be nil, is called in between.
func Observe(ctx context.Context, addr string, o DialOptions, connected func()) error {
	o.Rank = observer
	keys, err := secured(o.Secret, "")
	if err != nil {
		return err
	}
	c, err := dialOnce(ctx, addr, keys, o.filled())
	if err != nil {
		return err
	}
	if connected != nil {
		connected()
	}
	defer c.Close()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.lost:
		return c.broken(Progress{Op: "observe", Key: addr}, io.EOF)
	}
}

// watchObserver holds the connection of an observer until it ends. What comes are answers to pings, which need no
// watch: an observer that is silent delays nobody.
func (s *Server) watchObserver(c *serverConn, id uint64) error {
	if err := writeFrame(c, frame{op: opOK, id: id}); err != nil {
		return err
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return err
	}
	s.mu.Lock()
	s.observers[c] = struct{}{}
	s.mu.Unlock()
	s.wg.Go(c.send)
	_, err := io.Copy(io.Discard, c)
	close(c.done)
	return fmt.Errorf("%w: %w", errObserved, errors.Join(err, io.EOF))
}

// errObserved is the end of a connection that belonged to no rank.
var errObserved = errors.New("an observer has left")
