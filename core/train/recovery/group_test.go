package recovery

import (
	"errors"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// A failure that a new group would have again does not form one.
func TestMismatchNeedsNoNewGroup(t *testing.T) {
	failed := &host.PluginError{Kind: sdk.KindBackend, Cause: &sdk.MismatchError{Peer: 1}}
	if Replaceable(failed) {
		t.Error("a mismatch would be recovered from")
	}
	if Replaceable(&host.PluginError{Kind: sdk.KindDataset, Cause: host.ErrDied}) {
		t.Error("a data set's death would be recovered from by a new backend")
	}
}

// The rank that most others cannot reach leaves, rather than one of node 0.
func TestOddRank(t *testing.T) {
	for _, test := range []struct {
		blames [][]int
		nodes  []int
		odd    int
		why    string
	}{
		{[][]int{{1, 2}, {2}, {1}}, []int{0, 1, 2}, 2, "0, 1"},
		{[][]int{{1, 2}, {2}, {1}}, []int{1, 2, 0}, 1, "0, 2"},
		{[][]int{{1}, {0}}, []int{0, 1}, 1, "0"},
		{[][]int{{1}, {0}}, []int{1, 0}, 0, "1"},
		{[][]int{nil, {0}, {0}}, []int{0, 1, 2}, 0, "1, 2"},
		{[][]int{nil, {1}, nil}, []int{0, 1, 2}, -1, ""}, // its plugin died
	} {
		all := make([]message, len(test.blames))
		for r := range all {
			all[r] = message{Blames: test.blames[r], Node: test.nodes[r]}
		}
		if rank, why := odd(all); rank != test.odd || why != test.why {
			t.Errorf("%v: rank %d, which %q cannot reach, want %d and %q", test.blames, rank, why, test.odd, test.why)
		}
	}
}

// A rank that did not reach another one closes its connections: those that see that could reach it.
func TestOddRankAmongClosedConnections(t *testing.T) {
	failed := func(missing, closed []int) message { return message{Failure: "no", Blames: missing, Closed: closed} }
	for _, test := range []struct {
		all []message
		odd int
		why string
	}{
		{[]message{failed(nil, []int{1}), failed([]int{2}, nil), failed([]int{1}, nil)}, 2, "1"},
		{[]message{failed(nil, []int{1}), {}, failed(nil, []int{1})}, 1, "0, 2"}, // it does not know of it
		{[]message{failed(nil, []int{1}), failed(nil, nil), {}}, -1, ""},         // its plugin died
	} {
		for i := range test.all {
			test.all[i].Node = i
		}
		if rank, why := odd(test.all); rank != test.odd || why != test.why {
			t.Errorf("%+v: rank %d, which %q cannot reach, want %d and %q", test.all, rank, why, test.odd, test.why)
		}
	}
}

// A rank in the first collective waits for all that still connect: only whom those do not reach counts. If every connection was made, but
// not everything comes through, those that are awaited count.
func TestOddRankAmongAwaited(t *testing.T) {
	awaiting := func(awaits ...int) error {
		return &host.PluginError{Kind: sdk.KindBackend, Cause: &sdk.StallError{Op: sdk.OpAllReduce, Missing: awaits}}
	}
	without := func(missing ...int) error {
		return &host.PluginError{Kind: sdk.KindBackend, Cause: &sdk.StallError{Missing: missing}}
	}
	for _, test := range []struct {
		failures []error
		odd      int
		why      string
	}{
		{[]error{awaiting(1, 2), without(2), without(1)}, 2, "1"},
		{[]error{awaiting(1, 2, 3), without(2), without(1), awaiting(1, 2)}, 2, "1"},
		{[]error{awaiting(1, 2), awaiting(2), awaiting(1)}, 2, "0, 1"},
	} {
		all := make([]message, len(test.failures))
		for r, err := range test.failures {
			m := &all[r]
			m.Failure, m.Node = brief(err), r
			m.Blames, m.Awaits, m.Closed = blamed(err)
		}
		if rank, why := odd(all); rank != test.odd || why != test.why {
			t.Errorf("%+v: rank %d, which %q cannot reach, want %d and %q", all, rank, why, test.odd, test.why)
		}
	}
}

// A connection that cannot be made is no plugin's fault: a new one would not make it either.
func TestUnreachableNeedsNoNewPlugin(t *testing.T) {
	if Replaceable(&host.PluginError{Kind: sdk.KindBackend, Cause: &sdk.StallError{Missing: []int{1}}}) {
		t.Error("ranks without a connection would be recovered from")
	}
}

// A rank that fails by itself while others do not is left out; one that all failed with is not the reason.
func TestUnableRankIsFound(t *testing.T) {
	ok, failed := message{}, message{Failure: "no route to the master address"}
	for want, all := range map[int][]message{-1: {failed, failed}, 0: {failed, ok}, 1: {ok, failed, ok}, 2: {ok, failed, failed}} {
		if rank := unable(all); rank != want {
			t.Errorf("%+v: rank %d, want %d", all, rank, want)
		}
	}
}

// The others go on without a rank that failed by itself, which ends with its own error.
func TestOthersGoOnWithoutAnUnableRank(t *testing.T) {
	own := errors.New("no route to the master address")
	for rank, goesOn := range []bool{true, false} {
		g := &ProcessGroup{Members: complete{}}
		g.Open.Rank = rank
		err := error(&formError{err: own, odd: 1})
		if g.mayReplace(err) != goesOn {
			t.Errorf("rank %d: goes on: %v, want %v", rank, !goesOn, goesOn)
		}
		if left := g.leaves(err); left != err {
			t.Errorf("rank %d ends with %v, want its own error", rank, left)
		}
	}
}

// complete are members of which none is lost.
type complete struct{ Members }

func (complete) Incomplete() bool { return false }
func (complete) Broken() bool     { return false }
