package rank

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// The two sides of a connection of an elastic job notice that the other is silent, because it
// is stopped or because the network is cut: the server asks sixteen times within LostAfter, and
// both end a connection on which nothing has come for LostAfter.

// ticks is how often each side looks within LostAfter: the server notices one that is silent between LostAfter
// and 17/16 of it after its last answer, the other side a sixteenth later.
const ticks = 16

// pulse is the time during which this process has run. A tick counts for no more than a quarter of the limit, so
// that a process that was stopped itself does not blame the others; one that gets a core late, because the
// machine is busy, still notices silence in time, which a count of ticks would not.
type pulse struct{ time atomic.Int64 }

// now is the time of the last tick.
func (p *pulse) now() time.Duration { return time.Duration(p.time.Load()) }

// beat calls f at every tick until it returns false or over is closed.
func (p *pulse) beat(limit time.Duration, over <-chan struct{}, f func() bool) {
	tick := time.NewTicker(limit / ticks)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		now := time.Now()
		p.time.Add(int64(min(now.Sub(last), limit/4)))
		if last = now; !f() {
			return
		}
	}
}

// heard is when something came last.
type heard struct{ at atomic.Int64 }

func (h *heard) note(p *pulse) { h.at.Store(p.time.Load()) }

// silent reports whether nothing has come for longer than a time.
func (h *heard) silent(p *pulse, limit time.Duration) bool {
	return p.now()-time.Duration(h.at.Load()) > limit
}

// watch closes the connections of ranks that are silent.
func (s *Server) watch() {
	limit := s.opts.LostAfter
	s.pulse.beat(limit, s.life.Done(), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.peers {
			if c.heard.silent(&s.pulse, limit) {
				c.silent.Store(true)
				c.Close() // which makes it leave
				continue
			}
			c.queue(s.ping())
		}
		for c := range s.observers {
			c.queue(s.ping())
		}
		return true
	})
}

func (s *Server) ping() frame {
	return frame{op: opPing, body: fields{}.number(int64(s.opts.LostAfter))}
}

// silence is the error of a peer that was silent.
type silence time.Duration

func (s silence) Error() string { return fmt.Sprintf("it was silent for %v", time.Duration(s)) }

// Silent reports whether a connection to a store ended because the other side was silent for LostAfter.
func Silent(err error) bool { return errors.As(err, new(silence)) }

// answerPing shows the server that this process runs. From the first one on the
// connection ends when the server is silent.
func (c *Client) answerPing(f frame) {
	p := &parser{rest: f.body}
	limit := time.Duration(p.number())
	c.heard.note(&c.pulse)
	if p.end() != nil || limit <= 0 {
		return
	}
	if c.post(frame{op: opPong}) == nil {
		c.watching.Do(func() { go c.watch(limit) })
	}
}

// watch closes the connection when the server is silent. The server comes first: it decides who
// is in the group, and a rank that it has disconnected must not go on by itself.
func (c *Client) watch(limit time.Duration) {
	c.pulse.beat(limit, c.lost, func() bool {
		if !c.heard.silent(&c.pulse, limit+limit/ticks) {
			return true
		}
		c.mu.Lock()
		c.cause = silence(limit)
		c.mu.Unlock()
		c.conn.NetConn().Close()
		return false
	})
}
