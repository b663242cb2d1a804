package rank

import (
	"fmt"
	"time"
)

// The two sides of a connection of an elastic job notice that the other is silent, because it
// is stopped or because the network is cut: the server asks every eighth of LostAfter, and
// both end a connection on which nothing has come for LostAfter. Both count their own ticks
// rather than time, so that a process that was stopped itself does not blame the others.

// ticks is the number of ticks after which a silent side is considered lost: the server notices one
// between LostAfter and 9/8 of it after its last answer.
const ticks = 8

// everyTick calls f until it returns false or over is closed.
func everyTick(limit time.Duration, over <-chan struct{}, f func() bool) {
	tick := time.NewTicker(limit / ticks)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
			if !f() {
				return
			}
		}
	}
}

// watch closes the connections of ranks that are silent.
func (s *Server) watch() {
	everyTick(s.opts.LostAfter, s.life.Done(), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.peers {
			if c.quiet.Add(1) > ticks {
				c.silent.Store(true)
				c.Close() // which makes it leave
				continue
			}
			c.queue(frame{op: opPing, body: fields{}.number(int64(s.opts.LostAfter))})
		}
		return true
	})
}

// silence is the error of a peer that was silent.
type silence time.Duration

func (s silence) Error() string { return fmt.Sprintf("it was silent for %v", time.Duration(s)) }

// answerPing shows the server that this process runs. From the first one on the
// connection ends when the server is silent.
func (c *Client) answerPing(f frame) {
	p := &parser{rest: f.body}
	limit := time.Duration(p.number())
	c.quiet.Store(0)
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
	everyTick(limit, c.lost, func() bool {
		if c.quiet.Add(1) <= ticks+1 {
			return true
		}
		c.mu.Lock()
		c.cause = silence(limit)
		c.mu.Unlock()
		c.conn.NetConn().Close()
		return false
	})
}
