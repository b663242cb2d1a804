package rank

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// notebook is a journal in memory, for one host at a time.
type notebook struct {
	mu      sync.Mutex
	host    int // that may write
	records map[string][]byte
	hold    chan struct{} // writes wait until it is closed; nil: they do not
}

// by is the notebook as a host sees it.
func (n *notebook) by(host int) Journal {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.host = host
	return &page{n, host}
}

type page struct {
	*notebook
	host int
}

func (p *page) Records(context.Context) (map[string][]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.records), nil
}

func (p *page) Write(ctx context.Context, key string, val []byte) error {
	p.mu.Lock()
	hold := p.hold
	p.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.notebook.host != p.host {
		return errors.New("another one hosts")
	}
	p.records[key] = val
	return nil
}

// journalled is a job of three members that follow its store, whose moves the test sends.
func journalled(t *testing.T) (n *notebook, s *Server, m []*Members, moves []chan string) {
	t.Helper()
	n = &notebook{records: map[string][]byte{}}
	s, _, m = first(t, StoreOptions{Journal: n.by(0), LostAfter: time.Minute}, "012")
	for _, m := range m {
		c := make(chan string, 4)
		moves = append(moves, c)
		m.Follow(c)
	}
	return n, s, m, moves
}

// nextHost is another host of the same job.
func nextHost(t *testing.T, j Journal, dead ...int) *Server {
	t.Helper()
	s, _ := serve(t, StoreOptions{Journal: j, LostAfter: time.Minute, WorldSize: 3, Elastic: true, Dead: dead})
	return s
}

// When the process that hosts the store has died, with one member, the others form the next group
// at another host, and what was published there is there.
func TestAnotherHostContinues(t *testing.T) {
	n, s, m, moves := journalled(t)
	if err := m[0].Publish(t.Context(), "plan", []byte("3")); err != nil {
		t.Fatal(err)
	}
	aborted := make(chan int, 8)
	for _, m := range m {
		m.OnBroken(func() { aborted <- m.place })
	}
	s.Close()
	for range m {
		<-aborted
	}
	close(moves[0]) // its process has died
	next := nextHost(t, n.by(1), 0)
	for _, c := range moves[1:] {
		c <- next.Addr().String()
	}
	together(t, Broken, "12", m[1], m[2])
	if m[1].Broken() || m[1].Incomplete() || m[1].epoch != 2 || m[1].StoreLost() != nil {
		t.Errorf("group %d, broken: %v, incomplete: %v", m[1].epoch, m[1].Broken(), m[1].Incomplete())
	}
	if lost := m[1].Lost(); len(lost) != 1 {
		t.Errorf("lost: %q", lost)
	}
	joins := NewMembers(dial(t, next.Addr().String(), DialOptions{Rank: 0, Size: 3}), 0)
	if v, err := joins.Published(t.Context(), "plan"); string(v) != "3" || err != nil {
		t.Errorf("published: %q, %v", v, err)
	}
	var g errgroup.Group
	g.Go(func() error { _, err := joins.Regroup(t.Context(), Joining, []byte("0")); return err })
	awaitWanted(m[1])
	together(t, Between, "120", append(slices.Clone(m[1:]), joins)[:2]...)
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// A call of Regroup that waits when the host dies is made again at the next one.
func TestRegroupSurvivesItsHost(t *testing.T) {
	n, s, m, moves := journalled(t)
	var g errgroup.Group
	for _, m := range m[1:] {
		g.Go(func() error { _, err := m.Regroup(t.Context(), Broken, nil); return err })
	}
	s.Close()
	close(moves[0])
	next := nextHost(t, n.by(1), 0)
	for _, c := range moves[1:] {
		c <- next.Addr().String()
	}
	if err := g.Wait(); err != nil || m[1].Size() != 2 {
		t.Errorf("%d members, %v", m[1].Size(), err)
	}
}

// A member that is only disconnected comes back to the same host, and is a member of the next group.
func TestDisconnectedMemberComesBack(t *testing.T) {
	_, s, m, _ := journalled(t)
	s.mu.Lock()
	s.peers[1].Close()
	s.mu.Unlock()
	back := make(chan error, 1)
	go func() {
		_, err := m[1].Regroup(t.Context(), Broken, []byte("1"))
		back <- err
	}()
	for called := false; !called; time.Sleep(time.Millisecond) { // before the others go on without it
		s.mu.Lock()
		_, called = s.state.group.calls[1]
		s.mu.Unlock()
	}
	together(t, Broken, "012", m[0], m[2])
	if err := <-back; err != nil {
		t.Error(err)
	}
}

// Nobody learns of a group before the journal has it, and a host that was replaced meanwhile ends.
func TestHostThatWasReplacedFormsNoGroup(t *testing.T) {
	n, s, m, moves := journalled(t)
	n.mu.Lock()
	n.hold = make(chan struct{})
	n.mu.Unlock()
	formed := make(chan error, len(m))
	for _, m := range m {
		go func() {
			_, err := m.Regroup(t.Context(), Broken, []byte{byte('0' + m.place)})
			formed <- err
		}()
	}
	for held := false; !held; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		held = len(s.outbox) == 1+len(m) // the record, and the answers
		s.mu.Unlock()
	}
	select {
	case err := <-formed:
		t.Fatalf("formed before it was written: %v", err)
	default:
	}
	j := n.by(1)
	n.mu.Lock()
	close(n.hold)
	n.hold = nil
	n.mu.Unlock()
	next := nextHost(t, j)
	for _, c := range moves {
		c <- next.Addr().String()
	}
	for range m {
		if err := <-formed; err != nil {
			t.Error(err)
		}
	}
	if m[0].epoch != 2 || m[0].Size() != 3 {
		t.Errorf("group %d of %d", m[0].epoch, m[0].Size())
	}
	<-s.life.Done()
}

// One of which the others do not know any more may join again.
func TestMemberThatWasLeftBehindJoins(t *testing.T) {
	n, s, m, moves := journalled(t)
	s.Close()
	next := nextHost(t, n.by(1), 0)
	for _, c := range moves[1:] {
		c <- next.Addr().String()
	}
	together(t, Broken, "12", m[1], m[2])
	moves[0] <- next.Addr().String()
	if _, err := m[0].Regroup(t.Context(), Broken, nil); !errors.Is(err, ErrLate) {
		t.Errorf("got %v", err)
	}
}

// A member that learns that the store is lost also learns that its group has failed.
func TestGroupIsBrokenWhenItsStoreIsLost(t *testing.T) {
	_, s, m, _ := journalled(t)
	s.Close()
	if _, err := m[0].Gather(t.Context(), "values", nil); !errors.Is(err, ErrStoreLost) || !m[0].Broken() {
		t.Errorf("broken: %v, %v", m[0].Broken(), err)
	}
}

// list is a journal that keeps all records in their order.
type list struct {
	mu   sync.Mutex
	vals []string
}

func (*list) Records(context.Context) (map[string][]byte, error) { return nil, nil }

func (l *list) Write(_ context.Context, _ string, val []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.vals = append(l.vals, string(val))
	return nil
}

// Each record is written once, in order, whenever it comes.
func TestRecordsAreWrittenOnceInOrder(t *testing.T) {
	l := &list{}
	s, _ := serve(t, StoreOptions{Journal: l, WorldSize: 1, Elastic: true})
	var want []string
	for i := range 20000 {
		want = append(want, strconv.Itoa(i))
		s.mu.Lock()
		s.record("n", []byte(want[i]))
		s.mu.Unlock()
	}
	for wrote := false; !wrote; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		wrote = len(s.outbox) == 0
		s.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.vals, want) {
		t.Errorf("%d records are written, not each of %d once in order", len(l.vals), len(want))
	}
}

// damaged is a journal in which nothing can be written any more.
type damaged struct{}

var errDamaged = errors.New("no space")

func (damaged) Records(context.Context) (map[string][]byte, error) { return nil, nil }
func (damaged) Write(context.Context, string, []byte) error        { return errDamaged }

// A server whose journal fails ends, and says why.
func TestServerWhoseJournalFailsEnds(t *testing.T) {
	s, addr := serve(t, StoreOptions{Journal: damaged{}, WorldSize: 1, Elastic: true})
	m := NewMembers(dialAll(t, addr, 1)[0], 0)
	if s.Err() != nil {
		t.Error(s.Err())
	}
	if _, err := m.Regroup(t.Context(), Starting, nil); !errors.Is(err, ErrStoreLost) {
		t.Errorf("got %v", err)
	}
	<-s.Done()
	if !errors.Is(s.Err(), errDamaged) {
		t.Errorf("got %v", s.Err())
	}
}
