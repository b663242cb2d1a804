package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
)

// backend is a plugin that forms groups and can be restarted.
type backend struct {
	host.Collectives
	restarts int
	listens  func() error // nil: well
}

func (b *backend) Restart(context.Context) error                    { b.restarts++; return nil }
func (*backend) Open(context.Context, sdk.Group, sdk.Options) error { return nil }
func (*backend) Attach(context.Context, *sdk.Arena) error           { return nil }
func (*backend) Connect(_ context.Context, all [][]byte) error      { return checkEndpoints(all) }
func (b *backend) Listen(context.Context) (endpoint []byte, err error) {
	if b.listens != nil {
		err = b.listens()
	}
	return []byte("here"), err
}

func checkEndpoints(all [][]byte) error {
	for _, e := range all {
		if string(e) != "here" {
			return fmt.Errorf("endpoints are %q", all)
		}
	}
	return nil
}

// store gives all ranks what each has, by name.
type store struct {
	mu    sync.Mutex
	world int
	all   map[string][][]byte
	done  map[string]chan struct{}
}

func newStore(world int) *store {
	return &store{world: world, all: map[string][][]byte{}, done: map[string]chan struct{}{}}
}

func (s *store) gather(rank int) func(context.Context, string, []byte) ([][]byte, error) {
	return func(ctx context.Context, name string, own []byte) ([][]byte, error) {
		s.mu.Lock()
		if s.all[name] == nil {
			s.all[name], s.done[name] = make([][]byte, s.world), make(chan struct{})
		}
		s.all[name][rank] = own
		all, done := s.all[name], s.done[name]
		if !slices.ContainsFunc(s.all[name], func(b []byte) bool { return b == nil }) {
			close(done)
		}
		s.mu.Unlock()
		select {
		case <-done:
			return all, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// journal is a run that notes what recovery asks of it, and a sequence of calls.
type journal struct {
	did []string
	seq uint64
}

func (j *journal) note(format string, args ...any) {
	j.did = append(j.did, fmt.Sprintf(format, args...))
}
func (*journal) Step() int                        { return 7 }
func (j *journal) Regroup(p Place) error          { j.note("rank %d of %d", p.Rank, p.Size); return nil }
func (j *journal) Share(context.Context) error    { j.note("share"); return nil }
func (j *journal) Save()                          { j.note("save") }
func (j *journal) Rollback() error                { j.note("rollback"); return nil }
func (j *journal) Rebroadcast(stage string) error { j.note("rebroadcast %s", stage); return nil }
func (j *journal) Seq() uint64                    { return j.seq }
func (j *journal) Continue(seq uint64)            { j.note("continue after %d", seq) }

// onTwoRanks runs f as two ranks, and returns the requests to each and its error.
func onTwoRanks(t *testing.T, restarts int, change func(rank int, b *backend), f func(rank int, r *Recovery, j *journal) error) (did [2][]string, errs [2]error, told [2][]event.BackendRestarted) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s := newStore(2)
	var ranks sync.WaitGroup
	for rank := range 2 {
		b, j := &backend{}, &journal{seq: uint64(10 + rank)}
		if change != nil {
			change(rank, b)
		}
		bus := event.NewBus(rank)
		bus.Add(event.Func(func(r event.Record) {
			if e, ok := r.Event.(*event.BackendRestarted); ok {
				told[rank] = append(told[rank], *e)
			}
		}))
		g := &ProcessGroup{Backend: b, Gather: s.gather(rank), Open: sdk.Group{Rank: rank, WorldSize: 2}, Events: bus, InitTimeout: time.Minute, Restarts: restarts}
		ranks.Go(func() {
			if errs[rank] = g.Form(ctx, 1); errs[rank] == nil {
				r := New(j, g, time.Minute)
				r.Sequence = j
				errs[rank] = f(rank, r, j)
			}
			did[rank] = j.did
		})
	}
	ranks.Wait()
	return did, errs, told
}

var (
	died = &host.PluginError{Kind: sdk.KindBackend, Name: "mem", Cause: host.ErrDied}
	lost = &host.PluginError{Kind: sdk.KindBackend, Name: "mem", Cause: &sdk.PeerError{Peer: 1}}
)

// failing returns one of the errors per call.
func failing(j *journal, errs ...error) func(context.Context) error {
	return func(context.Context) error {
		j.note("do")
		if len(errs) == 0 {
			return nil
		}
		err := errs[0]
		errs = errs[1:]
		return err
	}
}

// A stage that broke on both ranks is rolled back and repeated by both, with the
// higher of their numbers of calls.
func TestStageIsRepeatedOnAllRanks(t *testing.T) {
	did, errs, told := onTwoRanks(t, 1, nil, func(rank int, r *Recovery, j *journal) error {
		return r.Do(t.Context(), Stage{Name: "gradients", Result: []float64{1}, Changes: true}, failing(j, []error{lost, died}[rank]))
	})
	for rank := range 2 {
		if errs[rank] != nil || !slices.Equal(did[rank], []string{"save", "do", "continue after 11", "rollback", "do"}) {
			t.Errorf("rank %d: %q, %v", rank, did[rank], errs[rank])
		}
		if len(told[rank]) != 1 || told[rank][0].Generation != 2 || told[rank][0].Step != 7 || told[rank][0].Cause != `rank 1, backend plugin "mem" (pid 0): the process ended` {
			t.Errorf("rank %d told of %+v", rank, told[rank])
		}
	}
}

// A rank that has not seen the end of a reduction takes its result from the others.
func TestResultComesFromTheOthers(t *testing.T) {
	results := [2][]float64{{5}, {0}}
	did, errs, _ := onTwoRanks(t, 1, nil, func(rank int, r *Recovery, j *journal) error {
		first := failing(j)
		if rank == 1 {
			first = failing(j, died)
		}
		if err := r.Do(t.Context(), Stage{Name: "totals", Result: results[rank], Changes: true}, first); err != nil {
			return err
		}
		second := failing(j)
		if rank == 0 {
			second = failing(j, lost)
		}
		return r.Do(t.Context(), Stage{Name: "numbers", Result: []float64{1}}, second)
	})
	if err := errors.Join(errs[:]...); err != nil || results[1][0] != 5 {
		t.Errorf("results %v, %v", results, err)
	}
	if want := []string{"save", "do", "continue after 11", "do"}; !slices.Equal(did[1], want) {
		t.Errorf("rank 1 did %q, want %q", did[1], want)
	}
}

// A rank that missed a broadcast gets it again from ranks that are farther, which
// wait at the end of the run for it.
func TestBroadcastIsRepeated(t *testing.T) {
	did, errs, _ := onTwoRanks(t, 1, nil, func(rank int, r *Recovery, j *journal) error {
		do := failing(j)
		if rank == 1 {
			do = failing(j, died)
		}
		if err := r.Do(t.Context(), Stage{Name: "buffers"}, do); err != nil {
			return err
		}
		return errors.Join(r.Finish(t.Context()), r.Finish(t.Context()))
	})
	for rank := range 2 {
		if errs[rank] != nil || !slices.Equal(did[rank], []string{"do", "continue after 11", "rebroadcast buffers"}) {
			t.Errorf("rank %d: %q, %v", rank, did[rank], errs[rank])
		}
	}
}

// Without restarts left a rank ends with its own cause.
func TestRestartsAreCounted(t *testing.T) {
	for restarts := range 2 {
		_, errs, _ := onTwoRanks(t, restarts, nil, func(rank int, r *Recovery, j *journal) error {
			cause := []error{lost, died}[rank]
			return r.Do(t.Context(), Stage{Name: "gradients", Result: []float64{1}}, failing(j, cause, cause))
		})
		if !errors.As(errs[0], new(*sdk.PeerError)) || !errors.Is(errs[1], host.ErrDied) {
			t.Errorf("%d restarts: %v", restarts, errs)
		}
	}
}

// A plugin that dies while the first group forms is replaced; what is no
// plugin's death is an error of all ranks.
func TestGroupIsFormedAgain(t *testing.T) {
	_, errs, told := onTwoRanks(t, 1, func(rank int, b *backend) {
		b.listens = func() error {
			if rank == 0 && b.restarts == 0 {
				return died
			}
			return nil
		}
	}, func(int, *Recovery, *journal) error { return nil })
	if err := errors.Join(errs[:]...); err != nil || len(told[0]) != 1 || len(told[1]) != 1 {
		t.Errorf("told %v, %v", told, err)
	}
	refused := errors.New("no such interface")
	_, errs, _ = onTwoRanks(t, 1, func(rank int, b *backend) {
		if rank == 0 {
			b.listens = func() error { return refused }
		}
	}, func(int, *Recovery, *journal) error { return nil })
	if !errors.Is(errs[0], refused) || errs[1] == nil || errs[1].Error() != "rank 0: no such interface" {
		t.Errorf("got %v", errs)
	}
}

// alone is an elastic job of one rank that is in the same group again and again.
type alone struct {
	Members
	regrouped int
}

func (a *alone) Regroup(_ context.Context, _ rank.Entry, mine []byte) ([][]byte, error) {
	a.regrouped++
	return [][]byte{mine}, nil
}
func (*alone) Rank() int        { return 0 }
func (*alone) Size() int        { return 1 }
func (*alone) Places() []int    { return []int{0} }
func (*alone) Lost() []string   { return nil }
func (*alone) Broken() bool     { return false }
func (*alone) Incomplete() bool { return false }
func (*alone) OnBroken(func())  {}

// Ranks that never reach each other stop forming groups.
func TestFutileGroupsEnd(t *testing.T) {
	m := &alone{}
	g := &ProcessGroup{Backend: &backend{}, Members: m, Events: event.NewBus(0), Gather: func(_ context.Context, _ string, mine []byte) ([][]byte, error) { return [][]byte{mine}, nil }, InitTimeout: time.Minute}
	g.Open.WorldSize = 1
	r := New(&journal{}, g, time.Minute)
	r.Sequence = &journal{}
	unreachable := &sdk.PeerError{Peer: 1, Cause: "no route to host"}
	err := r.Do(t.Context(), Stage{Name: "totals", Result: []float64{0}}, func(context.Context) error { return unreachable })
	if !errors.Is(err, unreachable) || !strings.Contains(err.Error(), "each broke; fix: check the network") || m.regrouped != maxFutile+1 {
		t.Errorf("after %d groups: %v", m.regrouped, err)
	}
}

// last is rank 2 of an elastic job of three nodes. By the time that it learns why a group was not formed, another rank has
// already asked for the next one.
type last struct {
	alone
	lost bool // a member, too
}

func (l *last) Regroup(_ context.Context, _ rank.Entry, mine []byte) ([][]byte, error) {
	if l.regrouped++; l.regrouped > 1 {
		return nil, errors.New("the test ends here")
	}
	return [][]byte{mine, mine, mine}, nil
}
func (*last) Rank() int          { return 2 }
func (*last) Size() int          { return 3 }
func (*last) Places() []int      { return []int{0, 1, 2} }
func (*last) Broken() bool       { return true }
func (l *last) Incomplete() bool { return l.lost }

// unreachable is a backend that does not reach rank 1.
type unreachable struct{ backend }

func (*unreachable) Connect(context.Context, [][]byte) error {
	return &host.PluginError{Kind: sdk.KindBackend, Name: "mem", Cause: &sdk.StallError{Missing: []int{1}}}
}

// The rank that leaves because others do not reach it leaves at once, however fast the others ask for the next group. If a rank
// was lost meanwhile, the fault may have been with that one, and the rest tries again.
func TestOddRankLeavesWhileOthersRegroup(t *testing.T) {
	for _, lost := range []bool{false, true} {
		m := &last{lost: lost}
		g := &ProcessGroup{Backend: &unreachable{}, Members: m, Node: 2, Events: event.NewBus(2), InitTimeout: time.Minute}
		g.Gather = func(_ context.Context, name string, mine []byte) ([][]byte, error) {
			if strings.HasSuffix(name, "endpoints") {
				return [][]byte{mine, mine, mine}, nil
			}
			return [][]byte{[]byte(`{"Failure": "stalled", "Again": true, "Awaits": [1, 2]}`), []byte(`{"Failure": "no connection", "Blames": [2], "Node": 1}`), mine}, nil
		}
		g.Open = sdk.Group{Rank: 2, WorldSize: 3}
		r := New(&journal{}, g, time.Minute)
		r.Sequence = &journal{}
		err := r.Do(t.Context(), Stage{Name: "totals", Result: []float64{0}}, failing(&journal{}, &sdk.PeerError{Peer: 1}))
		if left := err != nil && strings.HasPrefix(err.Error(), "rank 1 cannot reach this one, and the ranks go on without it; fix: "); left == lost {
			t.Errorf("a rank lost: %v, after %d groups: %v", lost, m.regrouped, err)
		}
	}
}
