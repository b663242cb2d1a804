package parity

import (
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

// How gradients travel changes nothing in what is computed: on a given number
// of ranks every layout of buckets, and every way through the backend, ends
// with the same bits.
func TestCommunicationDoesNotChangeResults(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, rig.StatefulTables+rig.SGD)
	args := rig.Set("launch.nproc_per_node=3", "checkpoint.every=never")
	whole := p.Run(t, args...)
	if len(whole.Steps) != 8 || whole.Summary.Comm.Buckets != 1 {
		t.Fatalf("%d steps, %d buckets", len(whole.Steps), whole.Summary.Comm.Buckets)
	}
	for _, c := range []struct {
		name    string
		set     []string
		buckets int // 0: any
	}{
		{"again", nil, 1},
		{"a bucket per kilobyte", []string{"ddp.bucket_cap_mb=0.001", "ddp.first_bucket_mb=0.001"}, 0},
		{"a bucket per parameter", []string{"ddp.bucket_cap_mb=0", "ddp.first_bucket_mb=0"}, 8},
		{"a small first bucket", []string{"ddp.first_bucket_mb=0.0001"}, 2},
		{"measured caps", []string{"ddp.bucket_cap_mb=auto"}, 1},
		{"no overlap", []string{"ddp.overlap=false"}, 1},
		{"sockets", []string{"backend.options.shm=false"}, 1},
		{"sockets, many buckets", []string{"backend.options.shm=false", "ddp.bucket_cap_mb=0", "ddp.first_bucket_mb=0"}, 8},
		{"buffers only at the end", []string{"ddp.broadcast_buffers=false"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := p.Run(t, append(rig.Set(c.set...), args...)...)
			rig.EqualBits(t, c.name, r.Losses(), whole.Losses())
			rig.EqualParams(t, c.name, r, whole)
			if n := r.Summary.Comm.Buckets; n < 2 && c.buckets == 0 || c.buckets != 0 && n != c.buckets {
				t.Errorf("%d buckets, want %d", n, c.buckets)
			}
		})
	}
}

// Batch statistics are rank 0's in every evaluation and at the end, whether
// they are broadcast in every step or not, also within the run.
func TestBuffersAreEqualAtTheEnd(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, rig.StatefulTables+rig.SGD)
	with := p.Run(t, rig.Set("checkpoint.every=never")...)
	without := p.Run(t, rig.Set("checkpoint.every=never", "ddp.broadcast_buffers=false")...)
	// Rank 0 sees its own batches only, either way, and others get its statistics.
	if with.Params(t) != without.Params(t) {
		t.Error("rank 0's statistics depend on the others'")
	}
	for i, e := range with.Evals {
		if o := without.Evals[i]; e.Loss != o.Loss || e.Accuracy != o.Accuracy {
			t.Errorf("evaluation %d: %+v and %+v", i, e, o)
		}
	}
}
