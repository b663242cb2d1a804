package rank

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Journal keeps the part of an elastic job's store that must survive the process that hosts it:
// the current group, and what its members publish. An *etcd.Job is one.
type Journal interface {
	// Records are those that this host and those before it have written.
	Records(ctx context.Context) (map[string][]byte, error)
	// Write returns once the record is stored, however long that takes. An error means that ctx
	// has ended, or that another process hosts the store by now; then it stores nothing.
	Write(ctx context.Context, key string, val []byte) error
}

const (
	groupKey  = "group"    // the record of the current group
	published = "members/" // keys that Members.Publish stores, and their records
)

// groupRecord is the current group of an elastic job.
type groupRecord struct {
	Epoch   int
	Members []Peer
	Ended   bool
}

// outgoing is an answer to a rank, or a record that must be stored before the answers behind it
// are sent.
type outgoing struct {
	to    *serverConn
	frame frame
	key   string // of a record
	val   []byte
}

// journalled restores the state from the journal, if there is one, and writes what changes to it.
func (s *Server) journalled() error {
	if s.opts.Journal == nil {
		return nil
	}
	s.state.record = s.record
	return s.restore()
}

// record stores a record. The answers that follow wait for it. The state calls it under the
// server's lock.
func (s *Server) record(key string, val []byte) {
	s.outbox = append(s.outbox, outgoing{key: key, val: val})
	if len(s.outbox) == 1 && !s.closed {
		s.wg.Go(s.writeRecords)
	}
}

// writeRecords empties the outbox in its order. If another process hosts the store by now, this
// one ends: its ranks must not learn what no journal holds.
func (s *Server) writeRecords() {
	for next := s.nextRecord(false); next != nil; next = s.nextRecord(true) {
		if err := s.opts.Journal.Write(s.life, next.key, next.val); err != nil {
			if s.life.Err() == nil {
				s.notes.Say("journal", "closed, because the state of the job could not be recorded: %v", err)
				s.end(err)
			}
			s.shut()
			return
		}
	}
}

// nextRecord sends the answers before the next record and returns that record, nil if there is none.
// With written it first removes the last record, under the same lock: whoever finds the outbox empty
// starts another writer.
func (s *Server) nextRecord(written bool) *outgoing {
	s.mu.Lock()
	defer s.mu.Unlock()
	if written {
		s.outbox = s.outbox[1:]
	}
	for len(s.outbox) > 0 {
		next := s.outbox[0]
		if next.to == nil {
			return &next
		}
		next.to.queue(next.frame)
		s.outbox = s.outbox[1:]
	}
	return nil
}

// restore continues the job that the journal describes. Its group has broken, because its store
// was lost. Members that do not come within LostAfter are lost.
func (s *Server) restore() error {
	records, err := s.opts.Journal.Records(s.life)
	if err != nil {
		return err
	}
	for key, val := range records {
		if strings.HasPrefix(key, published) {
			s.state.values[key] = val
			s.state.held += len(val)
		}
	}
	text, begun := records[groupKey]
	if !begun {
		return nil
	}
	var r groupRecord
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("the record of the job's ranks: %w", err)
	}
	g := s.state.group
	g.epoch, g.ended, s.restored = r.Epoch, r.Ended, r.Epoch
	for _, p := range r.Members {
		p.Addr = ""
		g.members, s.state.names[p.Rank] = append(g.members, p.Rank), p
		if slices.Contains(s.opts.Dead, p.Rank) {
			g.lost[p.Rank] = departure{p, "its node, which hosted the job's store, is gone"}
		}
	}
	time.AfterFunc(s.opts.LostAfter, s.missing)
	return nil
}

// missing loses the members of a restored group that have not come.
func (s *Server) missing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.state.group
	if s.closed || g.epoch != s.restored {
		return
	}
	for _, r := range g.members {
		if _, lost := g.lost[r]; !lost && !s.state.here[r] && !s.state.gone[r] {
			s.state.lose(departure{s.state.names[r], "it did not connect to the job's new store"})
		}
	}
}

// broken tells a member of a restored group that it must form another one.
func (s *Server) broken(c *serverConn) {
	if s.restored > 0 && s.state.group.epoch == s.restored {
		c.queue(brokenGroup(s.restored, true)) // with its old store, members may be lost
	}
}
