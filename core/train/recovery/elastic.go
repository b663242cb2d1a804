package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/sdk"
)

// Members are the ranks of an elastic job. It is a *rank.Members.
type Members interface {
	// Regroup waits for the ranks that are left and, if all are between two steps, for those that
	// join. It returns what each gives, by rank.
	Regroup(ctx context.Context, e rank.Entry, mine []byte) ([][]byte, error)
	Rank() int
	Size() int
	Places() []int // the members' numbers, which they keep, by rank

	Lost() []string // how members of the group before were lost
	Short() bool    // the job needs more members
	Wanted() bool   // others wait to join; safe for concurrent use

	// Enough ends the wait of Regroup for more members. It is safe for concurrent use.
	Enough(ctx context.Context) error

	StoreLost() error

	// OnBroken sets what is called on another goroutine when the group has failed on some
	// rank; Broken reports whether it has, and Incomplete whether it has lost a member.
	OnBroken(f func())
	Broken() bool
	Incomplete() bool

	// Publish stores a value for those that join; Published waits for it.
	Publish(ctx context.Context, key string, val []byte) error
	Published(ctx context.Context, key string) ([]byte, error)
}

// Place is that of a rank in a group.
type Place struct{ Rank, Size, LocalRank, LocalSize int }

// admitting is the name of the stage between two steps in which ranks admit others.
const admitting = "admission"

var (
	errAdmission = errors.New("the ranks admit others")
	errBroken    = errors.New("the process group has failed on another rank")
)

// Admit admits the ranks that wait to join, and waits for some if the job needs more. All ranks
// call it, between the same two steps. When it returns, all others are in the same position as
// this one, or wait for the next call: a group that breaks meanwhile is replaced without them.
func (r *Recovery) Admit(ctx context.Context) error {
	asked := false
	return r.Do(ctx, Stage{Name: admitting}, func(context.Context) error {
		if asked {
			return nil
		}
		asked = true
		return errAdmission
	})
}

// Join waits until this rank is admitted to a run that has begun and has its state.
func (r *Recovery) Join(ctx context.Context) error {
	r.own.New = true
	for {
		c, err := r.consensus(ctx, Stage{Name: admitting}, nil)
		if err != nil {
			return err
		}
		begin := time.Now()
		if err = r.regroup(c); err != nil {
			return err
		}
		if err = r.form(ctx, c); err == nil {
			r.own.enter(c.stage)
			r.futile = 0
			r.Group.note("", r.run.Step(), begin)
			return nil
		}
		if !r.Group.mayReplace(err) {
			return r.Group.leaves(err)
		}
	}
}

// form forms the group of a consensus, and gives its state to those that joined.
func (r *Recovery) form(ctx context.Context, c consensus) error {
	if err := r.Group.replace(ctx); err != nil {
		return err
	}
	if m := r.Group.Members; m != nil && m.Broken() {
		return errBroken
	}
	r.Sequence.Continue(c.seq)
	if c.joined {
		return r.run.Share(ctx)
	}
	return nil
}

// entry says why this rank needs another group.
func entry(s Stage, cause error, joins bool) rank.Entry {
	switch {
	case joins:
		return rank.Joining
	case errors.Is(cause, errAdmission):
		return rank.Between
	case cause == nil:
		return rank.Ended
	}
	return rank.Broken
}

// abort ends the collectives of a group that has failed on another rank: they would wait for a
// rank that is silent until their deadline. It is called on any goroutine.
func (g *ProcessGroup) abort() {
	if b, ok := g.Backend.(interface{ Abort(cause error) }); ok {
		b.Abort(errBroken)
	}
}

// lostPeer reports whether a rank was interrupted because another one was lost, while its own
// plugin works.
func lostPeer(err error) bool {
	return errors.As(err, new(*rank.PeerLeftError)) || errors.As(err, new(*sdk.PeerError)) || errors.As(err, new(*sdk.StallError)) || errors.Is(err, errBroken)
}

// History is how the ranks of a job have changed so far. A rank that joins may have to report it at the end.
type History struct {
	Changes []event.Elastic
	Places  []int // of the group before
}

// History is that of this rank's run.
func (g *ProcessGroup) History() History { return History{g.Changes, g.before} }

// Assume takes over the history of the run that this rank joins.
func (g *ProcessGroup) Assume(h History) { g.Changes, g.before = h.Changes, h.Places }

// changed reports that the ranks of the job have changed.
func (g *ProcessGroup) changed(cause string, step int, begin time.Time) {
	e := g.note(cause, step, begin)
	g.Trace.Span(timeline.Elastic, "regroup", -1, 0, begin, time.Now())
	g.Events.Emit(&e)
}

// note adds a change of the ranks to the history.
func (g *ProcessGroup) note(cause string, step int, begin time.Time) event.Elastic {
	now := g.Members.Places()
	e := event.Elastic{Ranks: len(now), Before: len(g.before), Step: step, Cause: cause, TookMS: event.Millis(time.Since(begin)), Places: now}
	for _, p := range g.before {
		if !slices.Contains(now, p) {
			e.Left = append(e.Left, p)
		}
	}
	for _, p := range now {
		if !slices.Contains(g.before, p) {
			e.Joined = append(e.Joined, p)
		}
	}
	switch lost := g.Members.Lost(); {
	case len(lost) > 0:
		e.Cause = strings.Join(lost, "; ")
	case len(e.Joined) > 0:
		e.Cause = "a new process joined at place " + strings.ReplaceAll(strings.Trim(fmt.Sprint(e.Joined), "[]"), " ", " and ")
	}
	g.before, g.Changes = now, append(g.Changes, e)
	return e
}

// placeOf is the place of this rank, by the nodes of all.
func placeOf(rank int, nodes []int) Place {
	p := Place{Rank: rank, Size: len(nodes)}
	for r, n := range nodes {
		if n != nodes[rank] {
			continue
		}
		if p.LocalSize++; r < rank {
			p.LocalRank++
		}
	}
	return p
}

// regroup changes the run to one of the current ranks.
func (r *Recovery) regroup(c consensus) error {
	m := r.Group.Members
	if m == nil {
		return nil
	}
	if r.futile++; !slices.Equal(m.Places(), r.Group.before) || c.admits {
		r.futile = 0
	}
	if r.futile > maxFutile {
		return fmt.Errorf("the same %d ranks have formed %d groups, and each broke; fix: check the network between their hosts", m.Size(), maxFutile)
	}
	p := placeOf(m.Rank(), c.nodes)
	r.Group.replaced = c.replaced // ranks may have tried to form different numbers of groups
	o := &r.Group.Open
	o.Rank, o.WorldSize, o.LocalRank, o.LocalSize = p.Rank, p.Size, p.LocalRank, p.LocalSize
	return r.run.Regroup(p)
}
