package rank

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// together calls Regroup on all of them at the same time, each with its place as value, and
// checks which places form the group.
func together(t *testing.T, e Entry, want string, ms ...*Members) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var g errgroup.Group
	for _, m := range ms {
		g.Go(func() error {
			all, err := m.Regroup(ctx, e, []byte{byte('0' + m.place)})
			if got := string(slices.Concat(all...)); err == nil && (got != want || m.Size() != len(want) || m.Rank() != strings.IndexByte(want, byte('0'+m.place))) {
				t.Errorf("place %d is rank %d of %d with %q, want %q", m.place, m.Rank(), m.Size(), got, want)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// awaitWanted returns when a rank that joins waits for the next group between two steps.
func awaitWanted(m *Members) {
	for !m.Wanted() {
		time.Sleep(time.Millisecond)
	}
}

// first forms the first group of a new job.
func first(t *testing.T, o StoreOptions, want string) (s *Server, clients []*Client, ms []*Members) {
	t.Helper()
	o.WorldSize, o.Elastic = len(want), true
	s, addr := serve(t, o)
	clients = dialAll(t, addr, o.WorldSize)
	for r, c := range clients {
		ms = append(ms, NewMembers(c, r))
	}
	together(t, Starting, want, ms...)
	return s, clients, ms
}

// Those that are left form the next group, in their order. One that comes is admitted between
// two steps, behind them, and not in a group that replaces a failed one.
func TestRegroup(t *testing.T) {
	s, clients, m := first(t, StoreOptions{}, "0123")
	clients[1].conn.Close()
	together(t, Broken, "023", m[0], m[2], m[3])

	back := NewMembers(dial(t, s.Addr().String(), DialOptions{Rank: 1, Size: 4}), 1)
	ctx := t.Context()
	if _, err := back.Regroup(ctx, Starting, nil); !errors.Is(err, ErrLate) {
		t.Errorf("it starts with a job that has begun: %v", err)
	}
	if err := m[0].Publish(ctx, "first", []byte("4")); err != nil {
		t.Error(err)
	}
	if v, err := back.Published(ctx, "first"); string(v) != "4" || err != nil {
		t.Errorf("got %q, %v", v, err)
	}
	var g errgroup.Group
	g.Go(func() error { _, err := back.Regroup(ctx, Joining, []byte("1")); return err })
	awaitWanted(m[0]) // it comes while they work
	clients[2].conn.Close()
	together(t, Broken, "03", m[0], m[3])
	together(t, Between, "031", m[0], m[3])
	if err := g.Wait(); err != nil || back.Rank() != 2 {
		t.Errorf("the one that came is rank %d, %v", back.Rank(), err)
	}
	for _, m := range []*Members{m[0], m[3], back} {
		g.Go(func() error {
			all, err := m.Gather(ctx, "values", []byte{byte('0' + m.place)})
			if got := string(slices.Concat(all...)); got != "031" {
				t.Errorf("gathered %q", got)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// As soon as a group has failed on one member, or one is lost, the others know.
func TestMembersLearnThatTheirGroupIsBroken(t *testing.T) {
	_, clients, m := first(t, StoreOptions{}, "012")
	aborted := make(chan int, 2)
	for _, m := range m[:2] {
		m.OnBroken(func() { aborted <- m.place })
	}
	clients[2].conn.Close()
	<-aborted
	<-aborted
	if !m[0].Broken() || !m[1].Broken() || !m[0].Incomplete() || !m[1].Incomplete() {
		t.Error("the group does not count as broken, or not as one that has lost a member")
	}
	together(t, Broken, "01", m[0], m[1])
	if m[0].Broken() || m[0].Incomplete() {
		t.Error("the new group counts as broken, or as one that has lost a member")
	}
	var g errgroup.Group
	g.Go(func() error { _, err := m[1].Regroup(t.Context(), Broken, nil); return err })
	if p := <-aborted; p != 0 {
		t.Errorf("place %d is told", p)
	}
	if !m[0].Broken() || m[0].Incomplete() {
		t.Error("the group does not count as broken, or as one that has lost a member")
	}
	if _, err := m[0].Regroup(t.Context(), Broken, nil); err != nil {
		t.Error(err)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// A silent rank is out, although no member has asked for another group.
func TestSilentRankIsDisconnected(t *testing.T) {
	s, clients, m := first(t, StoreOptions{LostAfter: 400 * time.Millisecond}, "01")
	broken := make(chan bool, 1)
	m[0].OnBroken(func() { broken <- true })
	clients[1].write.Lock() // so that it answers nothing
	<-broken
	clients[1].write.Unlock()
	<-clients[1].lost
	together(t, Broken, "0", m[0])
	s.Close()
}

// A job starts when there are enough ranks and the others have had some time to come. Fewer wait
// for others between two steps, and for so long only.
func TestGroupsNeedEnoughRanks(t *testing.T) {
	s, addr := serve(t, StoreOptions{WorldSize: 4, Elastic: true, Least: 2, Window: time.Millisecond, WaitForLeast: time.Millisecond})
	c := []*Client{dial(t, addr, DialOptions{Rank: 0, Size: 4}), dial(t, addr, DialOptions{Rank: 2, Size: 4})}
	m := []*Members{NewMembers(c[0], 0), NewMembers(c[1], 2)}
	together(t, Starting, "02", m...)
	c[1].conn.Close()
	together(t, Broken, "0", m[0])
	if !m[0].Short() || len(m[0].Lost()) != 1 || !strings.Contains(m[0].Lost()[0], "rank 2 (") {
		t.Errorf("short %v, lost %q", m[0].Short(), m[0].Lost())
	}
	together(t, Between, "0", m[0]) // after WaitForLeast
	s.mu.Lock()
	s.opts.WaitForLeast = time.Hour
	s.mu.Unlock()
	var g errgroup.Group
	g.Go(func() error { _, err := m[0].Regroup(t.Context(), Between, nil); return err })
	back := NewMembers(dial(t, addr, DialOptions{Rank: 3, Size: 4}), 3)
	if _, err := back.Regroup(t.Context(), Joining, nil); err != nil || back.Rank() != 1 || back.Short() {
		t.Errorf("rank %d, %v", back.Rank(), err)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	back.client.conn.Close()
	together(t, Broken, "0", m[0])
	if err := m[0].Enough(t.Context()); err != nil {
		t.Error(err)
	}
	together(t, Between, "0", m[0]) // without the others, although they may still come
}

// A machine on which ticks come late does not make ranks that are silent go unnoticed for as many ticks; a process that
// was stopped blames nobody.
func TestPulse(t *testing.T) {
	const limit = 64 * time.Millisecond
	var p pulse
	var h heard
	over, looks := make(chan struct{}), 0
	h.note(&p)
	p.beat(limit, over, func() bool {
		looks++
		if before := time.Duration(looks-1) * limit / 4; p.now() > before+limit/4 || h.silent(&p, limit) != (p.now() > limit) {
			t.Errorf("after %d ticks the time is %v", looks, p.now())
		}
		time.Sleep(limit) // the process gets a core late
		return looks < 6
	})
	if p.now() < limit || !h.silent(&p, limit) {
		t.Errorf("after %d late ticks the time is %v", looks, p.now())
	}
	if h.note(&p); h.silent(&p, 0) {
		t.Error("silent at once")
	}
}

// A rank cannot join when all that had the model are gone.
func TestJoiningAJobWithoutTheModel(t *testing.T) {
	s, clients, _ := first(t, StoreOptions{}, "01")
	for _, c := range clients {
		c.conn.Close()
	}
	for r := range 2 {
		late := NewMembers(dial(t, s.Addr().String(), DialOptions{Rank: r, Size: 2}), r)
		if _, err := late.Regroup(t.Context(), Joining, nil); !errors.Is(err, ErrNoModel) {
			t.Error(err)
		}
	}
}

// A member that waits to join a job learns that the job has ended.
func TestJoiningAJobThatEnds(t *testing.T) {
	s, clients, m := first(t, StoreOptions{}, "01")
	clients[1].conn.Close()
	back := NewMembers(dial(t, s.Addr().String(), DialOptions{Rank: 1, Size: 2}), 1)
	var g errgroup.Group
	g.Go(func() error {
		if _, err := back.Regroup(t.Context(), Joining, nil); !errors.Is(err, ErrOver) {
			t.Errorf("got %v", err)
		}
		return nil
	})
	awaitWanted(m[0])
	together(t, Ended, "0", m[0])
	clients[0].Close()
	late := NewMembers(dial(t, s.Addr().String(), DialOptions{Rank: 0, Size: 2}), 0)
	if _, err := late.Regroup(t.Context(), Joining, nil); !errors.Is(err, ErrOver) {
		t.Errorf("one that comes when all have left: %v", err)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// A member that leaves before the end has failed, although it says so: the others must not wait for
// it, nor for the process that takes its place.
func TestMemberThatDesertsIsLost(t *testing.T) {
	s, clients, m := first(t, StoreOptions{}, "01")
	clients[1].Close()
	again := NewMembers(dial(t, s.Addr().String(), DialOptions{Rank: 1, Size: 2}), 1)
	if _, err := m[0].Gather(t.Context(), "values", nil); !errors.As(err, new(*PeerLeftError)) {
		t.Errorf("got %v", err)
	}
	together(t, Broken, "0", m[0])
	if _, err := again.Regroup(t.Context(), Starting, nil); !errors.Is(err, ErrLate) {
		t.Error(err)
	}
}

// A member that is gone ends what waits for it, at once and until there is another group.
func TestLostMemberEndsGathers(t *testing.T) {
	_, clients, m := first(t, StoreOptions{}, "01")
	clients[1].conn.Close()
	for range 2 {
		var left *PeerLeftError
		if _, err := m[0].Gather(t.Context(), "values", nil); !errors.As(err, &left) || left.Peer.Rank != 1 {
			t.Errorf("got %v", err)
		}
	}
	together(t, Broken, "0", m[0])
	if _, err := m[0].Gather(t.Context(), "values", nil); err != nil {
		t.Error(err)
	}
}

// A member that is silent is disconnected.
func TestSilentMemberIsLost(t *testing.T) {
	_, _, m := first(t, StoreOptions{LostAfter: time.Second}, "012") // in which the others call, on a busy machine too
	together(t, Broken, "01", m[0], m[1])
	if _, err := m[2].Regroup(t.Context(), Broken, nil); !errors.Is(err, ErrStoreLost) {
		t.Errorf("the silent one: %v", err)
	}
}

// A member whose group has failed will not come to what the others still exchange in it: that ends at once, whether they
// have called already or call later.
func TestGathersEndWithTheirGroup(t *testing.T) {
	s, _, m := first(t, StoreOptions{}, "012")
	waits := make(chan error)
	go func() { _, err := m[0].Gather(t.Context(), "values", nil); waits <- err }()
	for called := false; !called; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		called = len(s.state.gathers) == 1
		s.mu.Unlock()
	}
	var g errgroup.Group
	g.Go(func() error { _, err := m[2].Regroup(t.Context(), Broken, nil); return err })
	if err := <-waits; err == nil || !strings.Contains(err.Error(), "the group has failed on rank 2") {
		t.Errorf("got %v", err)
	}
	if _, err := m[1].Gather(t.Context(), "values", nil); err == nil || !strings.Contains(err.Error(), "the group has failed on rank 2") {
		t.Errorf("got %v", err)
	}
	for _, m := range m[:2] {
		if !m.Broken() {
			t.Error("the group does not count as broken")
		}
	}
	for _, m := range m[:2] {
		g.Go(func() error { _, err := m.Regroup(t.Context(), Broken, nil); return err })
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// One that answers is not silent: it may be computing, or saving. The others wait for it for LateAfter, and at the end, where
// rank 0 saves, as long as it takes.
func TestLateMemberIsNotSilent(t *testing.T) {
	s, _, m := first(t, StoreOptions{LostAfter: time.Second, LateAfter: time.Hour}, "01")
	var g errgroup.Group
	g.Go(func() error { _, err := m[0].Regroup(t.Context(), Broken, []byte("0")); return err })
	for began := s.pulse.now(); s.pulse.now() < began+2*s.opts.LostAfter; {
		select {
		case <-m[1].client.lost:
			t.Fatal("it was disconnected")
		case <-time.After(time.Millisecond):
		}
	}
	together(t, Broken, "01", m[1])
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	g.Go(func() error { _, err := m[0].Regroup(t.Context(), Ended, []byte("0")); return err })
	for called := false; !called; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		if called = len(s.state.group.calls) == 1; called && s.expecting == s.state.group.epoch {
			t.Error("one that is not at the end yet is disconnected")
		}
		s.mu.Unlock()
	}
	together(t, Ended, "01", m[1])
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func TestRegroupNeedsAnElasticJob(t *testing.T) {
	_, addr := serve(t, StoreOptions{WorldSize: 1})
	if _, err := NewMembers(dial(t, addr, DialOptions{Size: 1}), 0).Regroup(t.Context(), Starting, nil); err == nil || !strings.Contains(err.Error(), "do not change") {
		t.Errorf("got %v", err)
	}
}

// A rank that gives up before it is admitted, or leaves, is in no group: the others would wait for it.
func TestRankThatGivesUpJoiningIsInNoGroup(t *testing.T) {
	s, clients, m := first(t, StoreOptions{}, "012")
	clients[1].conn.Close()
	clients[2].conn.Close()
	together(t, Broken, "0", m[0])
	for r := 1; r <= 2; r++ {
		c := dial(t, s.Addr().String(), DialOptions{Rank: r, Size: 3})
		ctx, cancel := context.WithCancel(t.Context())
		gave := make(chan error, 1)
		go func() {
			_, err := NewMembers(c, r).Regroup(ctx, Joining, nil)
			gave <- err
		}()
		for called := false; !called; time.Sleep(time.Millisecond) {
			s.mu.Lock()
			_, called = s.state.group.calls[r]
			s.mu.Unlock()
		}
		if r == 1 {
			cancel()
		} else {
			c.Close()
		}
		if err := <-gave; err == nil {
			t.Errorf("rank %d was admitted", r)
		}
		cancel()
	}
	together(t, Between, "0", m[0])
}

// A member that does not come to the next group is waited for anew in each group, also if the wait for
// one of the last group has not passed yet.
func TestEachGroupExpectsItsMembers(t *testing.T) {
	s, _, _ := first(t, StoreOptions{LostAfter: time.Hour}, "01")
	s.mu.Lock()
	defer s.mu.Unlock()
	for epoch := 1; epoch <= 2; epoch++ {
		s.state.group.epoch = epoch
		s.expect()
		if s.expecting != epoch {
			t.Errorf("in group %d those of %d are expected", epoch, s.expecting)
		}
	}
}

// However often the ranks find that they are too few, one timer runs, which ends with the server.
func TestOneTimerForEachDelay(t *testing.T) {
	s, _, _ := first(t, StoreOptions{WaitForLeast: time.Hour}, "01")
	s.mu.Lock()
	s.after(forLeast, 1)
	before := s.delays[forLeast]
	s.after(forLeast, 1)
	again := s.delays[forLeast]
	s.after(forLeast, 2)
	next := s.delays[forLeast]
	s.mu.Unlock()
	if again != before || next == before || before.timer.Stop() {
		t.Error("another timer of the same group was started, or that of the last group still runs")
	}
	s.Close()
	if next.timer.Stop() {
		t.Error("a timer still runs after the end of the server")
	}
}
