package ddp

import (
	"errors"

	"github.com/trainctl/trainctl/core/engine/plan"
)

// staging copies buckets between the device, which computes gradients in its copy
// of the arena, and the arena, where they are reduced. Buckets are fetched when
// they are final, packed and sent when they have arrived, and stored back when
// they are reduced. It is not used with a backend that maps the device's copy.
type staging struct {
	copies plan.Staging // nil: gradients are computed in the arena
	on     bool         // buckets are staged through copies
	coming []int        // buckets being copied to the arena, in index order
}

// SetStaging makes the reducer fetch gradients from a device and store them back
// there. It is called before the first Begin; the caller closes it.
func (r *Reducer) SetStaging(s plan.Staging) { r.staged.copies, r.staged.on = s, true }

// fetch starts to copy a bucket to the arena, from which Arrive sends it.
func (s *staging) fetch(b int) error {
	if err := s.copies.Fetch(b); err != nil {
		return err
	}
	s.coming = append(s.coming, b)
	return nil
}

// Arrive sends the buckets that have arrived in the arena, in index order, as all
// ranks do; with wait it sends all that were fetched. Wait before a collective in the
// middle of a pass, so that it has the same place in the sequence of calls on all ranks.
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

// next returns the first bucket being copied, and whether it has arrived. There must be one.
func (s *staging) next(wait bool) (b int, arrived bool, err error) {
	b = s.coming[0]
	arrived, err = s.copies.Fetched(b, wait)
	return b, arrived, err
}

func (s *staging) pop() { s.coming = append(s.coming[:0], s.coming[1:]...) }

// settle waits for the copies that a failed pass has started.
func (s *staging) settle() (err error) {
	for _, b := range s.coming {
		_, e := s.copies.Fetched(b, true)
		err = errors.Join(err, e)
	}
	s.coming = s.coming[:0]
	return err
}
