package train

import (
	"context"
	"errors"
)

// section is a part of the run that all ranks go through together, in the same
// order. When the backend's group breaks in it, all ranks bring a new group
// about, and those that are not through do the section again.
//
// Ranks can be in different sections at that moment, because a collective ends
// on one rank before it ends on another. A reduction cannot end before every
// rank has begun it, so a rank behind a section that ends with one lacks
// nothing but that last result, which the others still have. A broadcast can
// end on its root long before, so what it gave is given again.
type section struct {
	name string
	do   func(context.Context) error
	// keep comes before the first do, undo before each further one; nil if do
	// only reads.
	keep func()
	undo func() error
	// result is what do ends with by a reduction; nil if it ends with a broadcast.
	result []float64
	// repeat broadcasts once more what a section without a result gives.
	repeat func() error
}

// sections are those of a run.
type sections struct {
	weights   section // the broadcast that a run begins with
	pace      section // what a pass and all-reduces cost, for caps that are measured
	numbers   section // one number of every rank
	gradients section // buffers, passes, buckets, and the totals of a step
	finite    section // whether all gradients of a step are
	totals    section // of an evaluation
	buffers   section // the broadcast of batch statistics
	carry     section // the collection of what compression carries over
	end       section // nothing follows
}

func (t *Trainer) defineSections() {
	t.theirs = make([]float64, t.World.Size)
	t.parts = sections{
		weights:   broadcast("weights", t.shareWeights),
		pace:      section{name: "pace", do: t.measure, result: t.cost[:]},
		numbers:   section{name: "numbers", do: t.gatherNumbers, result: t.theirs},
		gradients: section{name: "gradients", do: t.gradients, keep: t.keepStep, undo: t.rewindStep, result: t.sums[:]},
		finite:    section{name: "finite", do: t.allFinite, result: t.found[:]},
		totals:    section{name: "totals", do: t.total, result: t.evalSums[:]},
		buffers:   broadcast("buffers", t.shareBuffers),
		carry:     broadcast("carry", t.collectCarried),
		end:       section{name: "end"},
	}
}

// broadcast is a section that gives what is too large to keep.
func broadcast(name string, give func() error) section {
	return section{name: name, do: func(context.Context) error { return give() }, repeat: give}
}

// numbers gives all ranks a number of each, by rank, until the next call.
func (t *Trainer) numbers(ctx context.Context, mine float64) ([]float64, error) {
	t.mine = mine
	return t.theirs, t.together(ctx, &t.parts.numbers)
}

func (t *Trainer) gatherNumbers(context.Context) error {
	all, err := t.group.Gather(t.mine)
	if err == nil {
		copy(t.theirs, all)
	}
	return err
}

// together does a section with the other ranks.
func (t *Trainer) together(ctx context.Context, s *section) error {
	if !t.heals() {
		return s.do(ctx)
	}
	t.at.Section++
	if t.at.Section < t.given {
		t.at.remember(nil)
		return nil // what it broadcasts has come with that of another one
	}
	if s.keep != nil {
		s.keep()
	}
	for {
		err := s.do(ctx)
		if err == nil {
			break
		}
		through, err := t.heal(ctx, s, err)
		if err != nil {
			return err
		}
		if through {
			break
		}
	}
	t.at.remember(s.result)
	return nil
}

// keepStep remembers what the passes of a step change beside gradients: the
// weights change only after the section.
func (t *Trainer) keepStep() {
	t.home.fail(t.fetchBuffers())
	t.kept = append(t.kept[:0], t.group.Bytes(t.memory.buffers)...)
	t.reducer.Save()
}

// rewindStep goes back to keepStep, and to the step's first batch.
func (t *Trainer) rewindStep() error {
	copy(t.group.Bytes(t.memory.buffers), t.kept)
	if err := errors.Join(t.storeBuffers(), t.reducer.Rollback()); err != nil {
		return err
	}
	return t.startPass()
}

// allFinite tells all ranks whether a gradient of any of them is not finite.
func (t *Trainer) allFinite(context.Context) (err error) {
	mine := !t.optimizer.GradsFinite()
	if err := t.optimizer.Err(); err != nil {
		return err
	}
	bad, err := t.group.Any(mine)
	if err == nil {
		t.found[0] = 0
		if bad {
			t.found[0] = 1
		}
	}
	return err
}
