package ddp

import (
	"fmt"
	"strings"
)

// readiness counts gradients into buckets and says which bucket may be launched. It only keeps
// count: it accesses no gradients and does not communicate.
//
// Buckets are launched strictly in index order, because every rank has to
// make the same sequence of collectives; a later bucket that is ready early
// waits for its predecessors (PyTorch's mark_bucket_ready).
type readiness struct {
	names  []string // by parameter
	bucket []int    // by parameter
	size   []int    // by bucket: parameters in it
	left   []int    // by bucket: parameters still to come
	seen   []bool   // by parameter, since reset
	next   int      // first bucket that is not launched
}

func newReadiness(names []string, buckets []Bucket) *readiness {
	r := &readiness{
		names:  names,
		bucket: make([]int, len(names)),
		size:   make([]int, len(buckets)),
		left:   make([]int, len(buckets)),
		seen:   make([]bool, len(names)),
	}
	for i := range r.bucket {
		r.bucket[i] = -1
	}
	for b, bucket := range buckets {
		r.size[b] = len(bucket.Params)
		for _, p := range bucket.Params {
			r.bucket[p] = b
		}
	}
	r.reset()
	return r
}

// reset begins another backward pass.
func (r *readiness) reset() {
	copy(r.left, r.size)
	clear(r.seen)
	r.next = 0
}

// ready records that a parameter's gradient is complete and returns the
// half-open range of buckets that may be launched now. A gradient that is
// complete twice in one pass is a broken plan, not a user's mistake.
func (r *readiness) ready(param int) (from, to int) {
	if param < 0 || param >= len(r.bucket) || r.bucket[param] < 0 {
		panic(fmt.Sprintf("ddp: parameter %d belongs to no bucket", param))
	}
	if r.seen[param] {
		panic(fmt.Sprintf("ddp: the gradient of %s was marked ready twice in one backward pass", r.names[param]))
	}
	r.seen[param] = true
	r.left[r.bucket[param]]--
	from = r.next
	for r.next < len(r.left) && r.left[r.next] == 0 {
		r.next++
	}
	return from, r.next
}

// missing names the parameters that keep buckets from being launched.
func (r *readiness) missing() error {
	if r.next == len(r.left) {
		return nil
	}
	var names []string
	for p, seen := range r.seen {
		if !seen && r.bucket[p] >= 0 {
			names = append(names, r.names[p])
		}
	}
	return fmt.Errorf("backward ended before the gradients of %d parameters were complete: %s", len(names), strings.Join(names, ", "))
}
