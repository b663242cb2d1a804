package ddp

import (
	"errors"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp/ddptest"
)

// transit is a plan.Staging whose copies arrive when the test says so.
type transit struct {
	fetched, stored []int
	landed          map[int]bool
	broken          int // bucket whose copy fails, -1 for none
}

var errBroken = errors.New("the copy engine is on fire")

func (s *transit) Fetch(b int) error { s.fetched = append(s.fetched, b); return nil }
func (s *transit) Store(b int) error { s.stored = append(s.stored, b); return nil }
func (s *transit) Close() error      { return nil }

func (s *transit) Fetched(b int, wait bool) (bool, error) {
	if b == s.broken {
		return false, errBroken
	}
	return wait || s.landed[b], nil
}

// sent are the buckets that a backend was given.
type sent struct{ buckets []int }

// staged is a reducer of three buckets of one gradient each.
func staged(t *testing.T, overlap bool) (*Reducer, *transit, *sent) {
	grads := make([]Gradient, 3)
	for i := range grads {
		grads[i] = Gradient{Name: string(rune('a' + i)), DType: tensor.F32, Shape: tensor.Shape{4}}
	}
	buckets := Assign(grads, []int{0, 1, 2}, 1, 1)
	regions, end := Layout(buckets, 0)
	comm, stage := &sent{}, &transit{landed: map[int]bool{}, broken: -1}
	cfg := Default()
	cfg.Overlap = overlap
	note := func(c *sdk.Collective) error { comm.buckets = append(comm.buckets, c.Bucket); return nil }
	g := NewGroup(0, 2, &ddptest.Backend{Do: note}, ddptest.NewArena(t, end+ScratchBytes), Region{Offset: end, Size: ScratchBytes})
	r := NewReducer(g, cfg, grads, buckets, regions, regions)
	r.SetStaging(stage)
	return r, stage, comm
}

// A bucket is sent when it has landed, in index order, and stored when it is reduced.
func TestBucketsLandInOrder(t *testing.T) {
	r, stage, comm := staged(t, true)
	r.Begin(true)
	r.GradReady(0)
	r.GradReady(1)
	if len(comm.buckets) > 0 || !slices.Equal(stage.fetched, []int{0, 1}) {
		t.Fatalf("fetched %v, sent %v", stage.fetched, comm.buckets)
	}
	stage.landed[1] = true // 0 has not
	if err := r.Arrive(false); err != nil || len(comm.buckets) > 0 {
		t.Fatalf("sent %v, %v", comm.buckets, err)
	}
	stage.landed[0] = true
	r.GradReady(2) // looks on the way
	if !slices.Equal(comm.buckets, []int{0, 1}) {
		t.Fatalf("sent %v", comm.buckets)
	}
	if err := errors.Join(r.Flush(), r.Finish()); err != nil {
		t.Fatal(err)
	}
	if want := []int{0, 1, 2}; !slices.Equal(comm.buckets, want) || !slices.Equal(stage.stored, want) {
		t.Errorf("sent %v, stored %v", comm.buckets, stage.stored)
	}
}

// Passes that only accumulate leave gradients on the device, and without overlap
// nothing leaves it before the pass is over.
func TestNothingIsFetchedEarly(t *testing.T) {
	r, stage, comm := staged(t, false)
	for _, sync := range []bool{false, true} {
		r.Begin(sync)
		for p := range 3 {
			r.GradReady(p)
		}
		if len(stage.fetched) > 0 {
			t.Fatalf("fetched %v", stage.fetched)
		}
		if err := errors.Join(r.Flush(), r.Finish()); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(comm.buckets, []int{0, 1, 2}) {
		t.Errorf("sent %v", comm.buckets)
	}
}

// A copy that fails ends the step, and the step can be done again.
func TestBrokenCopy(t *testing.T) {
	r, stage, comm := staged(t, true)
	stage.broken = 1
	pass := func() error {
		r.Begin(true)
		for p := range 3 {
			r.GradReady(p)
		}
		return errors.Join(r.Flush(), r.Finish())
	}
	r.Save()
	if err := pass(); !errors.Is(err, errBroken) {
		t.Fatalf("got %v", err)
	}
	stage.broken, comm.buckets = -1, nil
	if err := r.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := pass(); err != nil || !slices.Equal(comm.buckets, []int{0, 1, 2}) {
		t.Errorf("again: sent %v, %v", comm.buckets, err)
	}
}
