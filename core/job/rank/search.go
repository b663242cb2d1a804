package rank

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
)

// searching is a rank that looks for its job's store.
type searching struct {
	opts  DialOptions
	keys  *hostnet.TLS
	one   bool // there is a single address, which can only be the store's
	found chan *Client

	mu       sync.Mutex
	worst    error     // so far
	mistaken time.Time // since when a store of our job's name with another secret answers
	over     error     // the final error that ended the search
	end      context.CancelFunc
}

// search dials all addresses repeatedly until the job's store answers at one of
// them, one of them gives a final answer, or ctx ends.
func search(ctx context.Context, addrs []string, o DialOptions) (*Client, error) {
	keys, err := secured(o.Secret, o.PublicName)
	if err != nil {
		return nil, err
	}
	s := &searching{opts: o, keys: keys, one: len(addrs) == 1, found: make(chan *Client)}
	parent := ctx
	ctx, s.end = context.WithCancel(ctx)
	var calling sync.WaitGroup
	defer calling.Wait()
	defer s.end()
	for _, addr := range addrs {
		calling.Go(func() { s.call(ctx, addr) })
	}
	start, report := time.Now(), time.NewTicker(o.ReportEvery)
	defer report.Stop()
	for {
		p := Progress{Op: "connect", Key: span(addrs), Missing: []Peer{{Rank: 0, Host: hostOf(addrs[0])}}}
		select {
		case c := <-s.found:
			return c, nil
		case <-report.C:
		case <-ctx.Done():
			p.Waited, p.Cause = time.Since(start), s.cause()
			return nil, s.failure(parent, p)
		}
		p.Waited, p.Cause = time.Since(start), s.cause()
		o.OnWait(p)
	}
}

// call tries one address.
func (s *searching) call(ctx context.Context, addr string) {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		c, err := dialOnce(ctx, addr, s.keys, s.opts)
		if err == nil {
			select {
			case s.found <- c:
			case <-ctx.Done():
				c.Close()
			}
			return
		}
		if ctx.Err() == nil {
			s.note(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// note keeps the error that says most about why no store was found yet, and ends
// the search if the error is final.
func (s *searching) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.worst == nil || telling(err) >= telling(s.worst) {
		s.worst = err
	}
	if s.over == nil && s.final(err) {
		s.over = err
		s.end()
	}
}

// defaultCertain is how long a store with this job's name and another secret must
// answer before the search among several ports ends: our own store may start later,
// and the name proves nothing.
const defaultCertain = 5 * time.Second

// final reports whether trying again would give the same answer. With several
// ports, some may belong to the stores of other jobs.
func (s *searching) final(err error) bool {
	var no *RefusedError
	var other *SecretError
	switch {
	case errors.As(err, &no):
		return !no.again && (s.one || !no.otherJob)
	case !errors.As(err, &other):
		return false
	case s.one:
		return true
	case !other.sameJob:
		return false
	case s.mistaken.IsZero():
		s.mistaken = time.Now()
	}
	return time.Since(s.mistaken) >= s.opts.certain
}

func (s *searching) cause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worst
}

func (s *searching) failure(ctx context.Context, p Progress) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over != nil:
		return s.over
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &TimeoutError{Progress: p}
	}
	return fmt.Errorf("connecting to the job's store at %s: %w", p.Key, ctx.Err())
}

// telling orders errors by how much they say: a store that refuses us most, then
// one with another secret, then another program, then a port on which nothing
// listens.
func telling(err error) int {
	var other *SecretError
	switch {
	case errors.As(err, new(*RefusedError)):
		return 4
	case errors.As(err, &other) && other.sameJob:
		return 3
	case errors.As(err, &other):
		return 2
	case errors.Is(err, ErrNotThisJob):
		return 1
	}
	return 0
}

func span(addrs []string) string {
	if len(addrs) == 1 {
		return addrs[0]
	}
	return addrs[0] + " to " + addrs[len(addrs)-1]
}

func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
