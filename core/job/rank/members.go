package rank

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Members are the ranks that this one works with in an elastic job. Gather, Wanted, Enough, Broken,
// Incomplete and StoreLost are safe for concurrent use; the other methods belong to one goroutine.
type Members struct {
	place int

	mu     sync.Mutex
	client *Client
	linked chan struct{} // closed and replaced when there is another client; nil without Follow
	epoch  int
	least  int
	places []int
	lost   []string
	broken int    // the last group that has failed, as the store says
	shrunk int    // the last one that has lost a member
	wanted int    // the last group to which others want to be admitted
	abort  func() // see OnBroken
}

// ErrLate reports a rank that was to start with the first group of a job that has begun:
// it may join.
var ErrLate = errors.New("the job has begun without this rank")

// ErrOver reports that the job has ended without this rank.
var ErrOver = errors.New("the job has ended")

// ErrNoModel reports that a rank cannot join because all ranks that had the model are gone.
var ErrNoModel = errors.New("all ranks that had the model are gone")

// NewMembers are those of a rank whose place is its number at the store; there are none
// before the first Regroup.
func NewMembers(c *Client, place int) *Members {
	m := &Members{client: c, place: place, broken: -1, shrunk: -1, wanted: -1}
	c.mu.Lock()
	c.members = m
	c.mu.Unlock()
	return m
}

// Publish stores a value for those that join, and Published waits for it.
func (m *Members) Publish(ctx context.Context, key string, val []byte) error {
	c, _ := m.link()
	return c.Set(ctx, published+key, val)
}

// Published is the last value of Publish.
func (m *Members) Published(ctx context.Context, key string) ([]byte, error) {
	c, _ := m.link()
	return c.Get(ctx, published+key)
}

// Regroup waits until all members that are left have called it: from then on they are the members,
// in their order, followed by those that join if all are between two steps. It returns what each
// has given, by rank.
func (m *Members) Regroup(ctx context.Context, e Entry, mine []byte) ([][]byte, error) {
	p, err := m.callRegroup(ctx, e, mine)
	if err != nil {
		return nil, err
	}
	epoch, least, places, all, lost := p.small(), p.small(), p.numbers(), p.list(), p.list()
	switch {
	case p.end() != nil:
		return nil, p.err
	case epoch == overEpoch:
		return nil, ErrOver
	case epoch < 0:
		return nil, ErrNoModel
	case epoch == 0:
		return nil, ErrLate
	case len(places) != len(all) || !slices.Contains(places, m.place):
		return nil, fmt.Errorf("regroup: %w", errFrame)
	}
	m.mu.Lock()
	m.epoch, m.least, m.places, m.lost = epoch, least, places, texts(lost)
	m.mu.Unlock()
	return all, nil
}

// Enough ends the wait of Regroup for the least number of members, on all ranks.
func (m *Members) Enough(ctx context.Context) error {
	c, _ := m.link()
	_, err := c.call(ctx, Progress{Op: "enough"}, opEnough, nil)
	return err
}

// OnBroken sets what is called, on another goroutine, when the group has failed on another rank: a
// collective in it would wait forever.
func (m *Members) OnBroken(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.abort = f
}

// Broken reports whether the current group has failed on some rank, or the store is lost and
// another one takes its place, see Follow.
func (m *Members) Broken() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.broken >= m.epoch || m.moves()
}

// Incomplete reports whether the current group has lost a member, or the store is lost and another one takes its place: a
// group that is not may have failed only because its ranks do not reach each other.
func (m *Members) Incomplete() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shrunk >= m.epoch || m.moves()
}

// moves reports whether another store takes the place of the one that was lost. A call that failed for this may return
// before follow calls fail.
func (m *Members) moves() bool {
	select {
	case <-m.client.lost:
		return m.linked != nil
	default:
		return false
	}
}

// Wanted reports whether others wait to be admitted.
func (m *Members) Wanted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wanted >= m.epoch
}

// StoreLost is an error if the connection to the store is lost for good: the others continue
// without this rank, which could still take steps if it had no others.
func (m *Members) StoreLost() error {
	c, linked := m.link()
	if linked != nil {
		return nil
	}
	select {
	case <-c.lost:
		return c.broken(Progress{Op: "group"}, nil)
	default:
		return nil
	}
}

// told handles what the store announces.
func (m *Members) told(f frame) {
	m.mu.Lock()
	var abort func()
	switch p := (&parser{rest: f.body}); f.op {
	case opWanted:
		m.wanted = max(m.wanted, p.small())
	case opBroken:
		epoch, lost := p.small(), p.flag()
		if lost {
			m.shrunk = max(m.shrunk, epoch)
		}
		if epoch > m.broken {
			m.broken = epoch
			if epoch >= m.epoch {
				abort = m.abort
			}
		}
	}
	m.mu.Unlock()
	if abort != nil {
		abort()
	}
}

// Rank and Size are this rank's place among the members.
func (m *Members) Rank() int { return slices.Index(m.places, m.place) }
func (m *Members) Size() int { return len(m.places) }

// Short reports whether the job needs more members than there are.
func (m *Members) Short() bool { return len(m.places) < m.least }

// Lost says how members of the group before were lost.
func (m *Members) Lost() []string { return m.lost }

// Places are the members' numbers at the store, by rank.
func (m *Members) Places() []int { return slices.Clone(m.places) }

// Gather is Store.Gather of the members. It fails with a *PeerLeftError as soon as one
// of them is gone.
func (m *Members) Gather(ctx context.Context, name string, mine []byte) ([][]byte, error) {
	m.mu.Lock()
	places, name := m.places, fmt.Sprintf("%d/%s", m.epoch, name)
	m.mu.Unlock()
	c, _ := m.link()
	round := fmt.Sprintf("%s#%d", name, c.nextRound(name))
	p, err := c.call(ctx, Progress{Op: "gather", Key: name}, opGatherAmong, fields{}.text(round).numbers(places).bytes(mine))
	if err != nil {
		return nil, err
	}
	all := p.list()
	return all, p.end()
}
