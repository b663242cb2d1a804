package ddp

import (
	"errors"

	"github.com/trainctl/trainctl/core/engine/plan"
)

// staging brings buckets from a device, in whose copy of the arena gradients are
// computed, to the arena, where they are reduced, and back: they are fetched when
// they are final, packed and sent when they have arrived, and stored back
// when they are reduced. A backend that reaches the copy does without.
type staging struct {
	stage  plan.Stage // nil: gradients are computed in the arena
	on     bool       // buckets travel through stage
	coming []int      // buckets on their way to the arena, in index order
}

// Through makes the reducer fetch gradients from a device and store them back
// there. It is called before the first Begin; the caller closes the stage.
func (r *Reducer) Through(s plan.Stage) { r.staged.stage, r.staged.on = s, true }

// fetch begins to bring a bucket to the arena, from where Arrive sends it.
func (s *staging) fetch(b int) error {
	if err := s.stage.Fetch(b); err != nil {
		return err
	}
	s.coming = append(s.coming, b)
	return nil
}

// Arrive sends the buckets that have arrived in the arena, in index order, as all
// ranks do; with wait all that were fetched. Whoever calls a collective in the
// middle of a pass waits first, so that it has the same place in the sequence of calls on all ranks.
func (r *Reducer) Arrive(wait bool) error {
	for r.err == nil && len(r.staged.coming) > 0 {
		var b int
		var arrived bool
		if b, arrived, r.err = r.staged.next(wait); r.err != nil || !arrived {
			break
		}
		r.pack(b)
		r.staged.pop()
	}
	return r.err
}

// next is the first bucket on its way, and whether it has arrived. Some is on its way.
func (s *staging) next(wait bool) (b int, arrived bool, err error) {
	b = s.coming[0]
	arrived, err = s.stage.Landed(b, wait)
	return b, arrived, err
}

func (s *staging) pop() { s.coming = append(s.coming[:0], s.coming[1:]...) }

// settle waits for what a pass that ended badly has under way.
func (s *staging) settle() (err error) {
	for _, b := range s.coming {
		_, e := s.stage.Landed(b, true)
		err = errors.Join(err, e)
	}
	s.coming = s.coming[:0]
	return err
}
