package ddp

import (
	"errors"

	"github.com/trainctl/trainctl/core/engine/plan"
)

// A bucket is born in the host's arena, or in a copy of the arena on a device.
// Then its gradients travel through the arena, unless a backend reaches the copy: fetched when they are final,
// packed and sent when they have landed, stored back when they are reduced.

// Through makes the reducer fetch gradients from a device and store them back
// there. It is called before the first Begin; the caller closes the stage.
func (r *Reducer) Through(s plan.Stage) { r.stage, r.staged = s, true }

// fetch begins to bring a bucket to the arena, from where arrive sends it.
func (r *Reducer) fetch(b int) {
	if r.err = r.stage.Fetch(b); r.err == nil {
		r.coming = append(r.coming, b)
	}
}

// Arrive sends the buckets that have landed in the arena, in index order, as all
// ranks do; with wait all that were fetched. Whoever calls a collective in the
// middle of a pass waits first, so that it has the same place in the sequence of calls on all ranks.
func (r *Reducer) Arrive(wait bool) error {
	for r.err == nil && len(r.coming) > 0 {
		landed, err := r.stage.Landed(r.coming[0], wait)
		if r.err = err; err != nil || !landed {
			break
		}
		r.pack(r.coming[0])
		r.coming = append(r.coming[:0], r.coming[1:]...)
	}
	return r.err
}

// settle waits for what a pass that ended badly has under way.
func (r *Reducer) settle() (err error) {
	for _, b := range r.coming {
		_, e := r.stage.Landed(b, true)
		err = errors.Join(err, e)
	}
	r.coming = r.coming[:0]
	return err
}
