package recovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// restarter is optional for a backend in addition to host.Collectives: it can be
// started again.
type restarter interface {
	Restart(ctx context.Context) error
}

// DeviceMemory is memory of a device that a backend may reduce in.
type DeviceMemory interface {
	// Attach shows the memory to a backend that was just opened. An error keeps the
	// group from being formed.
	Attach(ctx context.Context) error
}

// ProcessGroup forms the process group of a run's backends, and replaces it. The
// exported fields are set before Form; it belongs to the goroutine of the training loop.
type ProcessGroup struct {
	Backend host.Collectives
	Gather  func(ctx context.Context, name string, mine []byte) ([][]byte, error) // train.Gather
	Open    sdk.Group                                                             // as the backend learns it; Epoch is counted here
	Options sdk.Options                                                           // of the backend
	Events  *event.Bus

	Arena  *sdk.Arena
	Device DeviceMemory // nil: gradients are reduced in Arena

	InitTimeout time.Duration // for a new group to be formed
	Restarts    int           // how often a group that broke because of a plugin is replaced
	Members     Members       // nil: the ranks stay the same
	Node        int           // of this rank

	Changes  []event.Elastic    // changes of the ranks
	Trace    *timeline.Recorder // nil: off
	before   []int              // places of the last group
	replaced int
}

// Replaced is how many groups of this run have been replaced.
func (g *ProcessGroup) Replaced() int { return g.replaced }

// replaceable reports whether a group that breaks is replaced, as long as
// restarts are left.
func (g *ProcessGroup) replaceable() bool {
	_, ok := g.Backend.(restarter)
	return ok && (g.Members != nil || g.Restarts > 0 && g.Open.WorldSize > 1)
}

// OpenBackend configures the backend.
func (g *ProcessGroup) OpenBackend(ctx context.Context) error {
	g.Open.Epoch = g.replaced
	return g.Backend.Open(ctx, g.Open, g.Options)
}

// Form forms the run's first group from the opened backends, before the given step. A backend that
// dies meanwhile is replaced.
func (g *ProcessGroup) Form(ctx context.Context, step int) error {
	begin := time.Now()
	err := g.connect(ctx, false)
	if !g.mayRetry(err) {
		return err
	}
	cause := err.Error()
	if err := g.replace(ctx); err != nil {
		return err
	}
	g.restarted(cause, step, begin)
	return nil
}

// replace forms a new group of new plugins, and another one if a plugin dies
// meanwhile, as long as restarts are left. All ranks count alike.
func (g *ProcessGroup) replace(ctx context.Context) error {
	for {
		g.replaced++
		bounded, cancel := context.WithTimeout(ctx, g.InitTimeout)
		err := g.connect(bounded, true)
		cancel()
		if !g.mayRetry(err) {
			return err
		}
	}
}

// mayRetry reports whether another attempt at forming a group may succeed.
func (g *ProcessGroup) mayRetry(err error) bool {
	var failed *formError
	return errors.As(err, &failed) && failed.again && g.replaceable() && g.replaced < g.Restarts
}

func (g *ProcessGroup) mayReplace(cause error) bool {
	var failed *formError
	if errors.As(cause, &failed) && failed.odd >= 0 && !g.Members.Incomplete() { // else connections were lost with a rank; that others already call Regroup says nothing
		return failed.odd != g.Open.Rank
	}
	if g.Members != nil && (lostPeer(cause) || errors.Is(cause, errAdmission) || g.Members.Broken()) {
		return true
	}
	return Replaceable(cause) && g.replaced < g.Restarts
}

// leaves is the error of a rank that leaves an elastic job because others did not reach it: an end by itself, which counts as a
// restart. Any other error is returned as it is.
func (g *ProcessGroup) leaves(err error) error {
	var failed *formError
	if !errors.As(err, &failed) || failed.odd != g.Open.Rank || failed.why == "" {
		return err
	}
	return fmt.Errorf("rank %s cannot reach this one, and the ranks go on without it; fix: check the network between their hosts, and the firewalls: %v", failed.why, err)
}

// exhausted adds to a cause that a new group would have helped.
func (g *ProcessGroup) exhausted(cause error) error {
	if !Replaceable(cause) {
		return cause
	}
	return fmt.Errorf("backend.restarts = %d are used up: %w", g.Restarts, cause)
}

func (g *ProcessGroup) restarted(cause string, step int, begin time.Time) {
	if g.Members != nil && !slices.Equal(g.Members.Places(), g.before) {
		g.changed(cause, step, begin)
		return
	}
	g.Events.Emit(&event.BackendRestarted{Generation: g.replaced + 1, Step: step, Cause: cause, TookMS: event.Millis(time.Since(begin))})
}

// Replaceable distinguishes a group that broke because a plugin died or hangs from ranks that
// disagree, which would disagree again in a new group.
func Replaceable(err error) bool {
	var failed *host.PluginError
	if !errors.As(err, &failed) || failed.Kind != sdk.KindBackend {
		return false
	}
	var said *sdk.Error
	var stall *sdk.StallError
	return errors.Is(err, host.ErrDied) || errors.Is(err, host.ErrHung) ||
		errors.As(err, new(*sdk.PeerError)) || errors.As(err, &stall) && stall.Op != sdk.OpNone ||
		errors.As(err, &said) && said.Code == sdk.CodePanic
}

// connect forms a group of the backends that run, or of restarted ones. It fails on
// all ranks if it does on one, except when a rank is gone or no restart is allowed.
func (g *ProcessGroup) connect(ctx context.Context, restart bool) error {
	endpoint, err := g.listen(ctx, restart)
	if err != nil && !g.replaceable() {
		return err
	}
	endpoints, err := g.exchange(ctx, "endpoints", endpoint, err)
	if err != nil {
		return err
	}
	if err = g.Backend.Connect(ctx, endpoints); !g.replaceable() {
		return err
	}
	_, err = g.exchange(ctx, "connected", nil, err)
	return err
}

// listen makes this rank's backend ready for the others to connect to.
func (g *ProcessGroup) listen(ctx context.Context, restart bool) (endpoint []byte, err error) {
	if restart {
		if err := g.Backend.(restarter).Restart(ctx); err != nil {
			return nil, err
		}
		if err := g.OpenBackend(ctx); err != nil {
			return nil, err
		}
	}
	if err := g.Backend.Attach(ctx, g.Arena); err != nil {
		return nil, err
	}
	if g.Device != nil {
		if err := g.Device.Attach(ctx); err != nil {
			return nil, err
		}
	}
	return g.Backend.Listen(ctx)
}

// exchange gives all ranks what each has. If one failed, all get a *formError.
func (g *ProcessGroup) exchange(ctx context.Context, what string, own []byte, failure error) ([][]byte, error) {
	m := message{Value: own, Node: g.Node}
	if failure != nil {
		m.Failure, m.Again = brief(failure), Replaceable(failure)
		m.Blames, m.Awaits, m.Closed = blamed(failure)
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic("recovery: " + err.Error())
	}
	replies, err := g.Gather(ctx, fmt.Sprintf("backend %d, %s", g.replaced+1, what), b)
	if err != nil {
		return nil, errors.Join(failure, err)
	}
	values, all := make([][]byte, len(replies)), make([]message, len(replies))
	var worst *formError
	for rank, b := range replies {
		m := &all[rank]
		if err := json.Unmarshal(b, m); err != nil {
			return nil, fmt.Errorf("%s of rank %d: %w", what, rank, err)
		}
		if values[rank] = m.Value; m.Failure != "" && (worst == nil || m.Again && !worst.again) {
			worst = &formError{again: m.Again, err: ddp.NewPeerFailed(rank, m.Failure), odd: -1}
		}
	}
	if worst == nil {
		return values, nil
	}
	if g.Members != nil {
		if worst.odd, worst.why = odd(all); worst.odd < 0 && !worst.again && g.replaced > 0 {
			worst.odd = unable(all)
		}
	}
	if failure != nil && !worst.again {
		worst.err = failure // this rank's own error says most
	}
	return nil, worst
}

// message is what a rank sends to the others while they form a group.
type message struct {
	Value   []byte `json:",omitempty"`
	Failure string `json:",omitempty"`
	Again   bool   `json:",omitempty"` // a new plugin may do better
	Blames  []int  `json:",omitempty"` // ranks that it did not reach
	Awaits  []int  `json:",omitempty"` // ranks that it reached, and that did not arrive in the first collectives
	Closed  []int  `json:",omitempty"` // ranks that closed a connection
	Node    int    `json:",omitempty"`
}

// blamed are the ranks that a failure is about: those that were not reached, that were awaited, or one that closed the connection.
func blamed(err error) (missing, awaited, closed []int) {
	var stall *sdk.StallError
	var peer *sdk.PeerError
	switch {
	case errors.As(err, &stall) && stall.Op == sdk.OpNone:
		return stall.Missing, nil, nil
	case errors.As(err, &stall):
		return nil, stall.Missing, nil
	case errors.As(err, &peer):
		return nil, nil, []int{peer.Peer}
	}
	return nil, nil, nil
}

// odd is the rank without which the others may form a group, -1 if none is known: the one that most others did not reach, of
// several that on the last node, because node 0 may host the job's store. A rank that fails closes its connections, so those on the other
// end do not blame it for that. A rank that others await may itself wait for one that it does not reach: that counts only if every rank has
// reached every other. All ranks find the same one. why says who blames it.
func odd(all []message) (rank int, why string) {
	rank, why = mostBlamed(all, func(m message, r int) bool {
		return slices.Contains(m.Blames, r) || all[r].Failure == "" && slices.Contains(m.Closed, r)
	})
	if rank < 0 {
		rank, why = mostBlamed(all, func(m message, r int) bool { return slices.Contains(m.Awaits, r) })
	}
	return rank, why
}

// mostBlamed is the rank that most others blame, see odd.
func mostBlamed(all []message, blames func(m message, r int) bool) (rank int, why string) {
	rank, most := -1, 0
	for r := range all {
		var by []string
		for other, m := range all {
			if other != r && blames(m, r) {
				by = append(by, fmt.Sprint(other))
			}
		}
		if n := len(by); n > 0 && (n > most || n == most && all[r].Node >= all[rank].Node) {
			rank, most, why = r, n, strings.Join(by, ", ")
		}
	}
	return rank, why
}

// unable is the last of the ranks that failed by themselves where others did not, -1 if there is none: one that joins may have lost its
// network just then, which is no reason for the others to end.
func unable(all []message) (rank int) {
	rank = -1
	for r, m := range all {
		if m.Failure != "" {
			rank = r
		}
	}
	if !slices.ContainsFunc(all, func(m message) bool { return m.Failure == "" }) {
		return -1
	}
	return rank
}

// formError is why a group could not be formed, on every rank.
type formError struct {
	again bool // a plugin died: another attempt may succeed
	err   error
	odd   int    // the rank that leaves an elastic job, so that the others can go on; -1: none
	why   string // ranks that did not reach it; empty if it failed by itself
}

func (e *formError) Error() string { return e.err.Error() }

func (e *formError) Unwrap() error { return e.err }

// brief is a cause without the plugin's last lines.
func brief(err error) string {
	var failed *host.PluginError
	if errors.As(err, &failed) {
		return fmt.Sprintf("backend plugin %q (pid %d): %v", failed.Name, failed.PID, failed.Cause)
	}
	return err.Error()
}
