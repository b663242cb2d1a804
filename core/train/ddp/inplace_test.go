package ddp

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp/ddptest"
)

// gpu is a device and its memory, which notes what is done with it, and the backend
// that shares it.
type gpu struct {
	plan.Resident
	plan.Shared
	did    []string
	events int
	broken string // what fails
}

func (l *gpu) do(format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	l.did = append(l.did, what)
	if what == l.broken {
		return errBroken
	}
	return nil
}

func (l *gpu) Scale(x tensor.Tensor, f float64) error {
	return l.do("scale %d by %v", x.Shape.Elems(), f)
}

func (l *gpu) Written() (ready, done int, err error) {
	l.events++
	return l.events, l.events, l.do("written")
}

func (l *gpu) Follow(done int) error { return l.do("follow %d", done) }

func (l *gpu) sum(c *sdk.Collective) error {
	if c.Buf != nil || c.Arena == nil || c.Arena.Name != "gpu" || c.Offset%64 != 0 {
		return fmt.Errorf("%v: arena %v, %d bytes", c, c.Arena, len(c.Buf))
	}
	return l.do("sum bucket %d, %d elements, after %d, before %d", c.Bucket, c.Count, c.Ready, c.Done)
}

func (l *gpu) Download(parts ...[]byte) error { return l.do("download %d parts", len(parts)) }

// onDevice is a reducer of two buckets of one gradient each, of 4 and 5 elements.
func onDevice(t *testing.T) (*Reducer, *gpu) {
	grads := []Gradient{{Name: "a", DType: tensor.F32, Shape: tensor.Shape{4}}, {Name: "b", DType: tensor.F32, Shape: tensor.Shape{5}}}
	buckets := Assign(grads, []int{0, 1}, 1, 1)
	regions, end := Layout(buckets, 0)
	cfg, l := Default(), &gpu{}
	cfg.PredivideFactor = 0.5
	comm := &ddptest.Backend{Do: l.sum, Waiting: func() error { return l.do("wait") }}
	g := NewGroup(0, 2, comm, ddptest.NewArena(t, end+ScratchBytes), Region{Offset: end, Size: ScratchBytes})
	r := NewReducer(g, cfg, grads, buckets, regions, regions)
	r.Within(l, l, &sdk.Arena{ID: 2, Name: "gpu"})
	return r, l
}

// A bucket is divided, and sent between events, the moment its last gradient is
// enqueued; the device goes on behind it only when Settle says so, once.
func TestBucketsAreReducedOnTheDevice(t *testing.T) {
	r, l := onDevice(t)
	pass := func() error {
		r.Begin(true)
		r.GradReady(0)
		r.GradReady(1)
		return errors.Join(r.Flush(), r.Finish())
	}
	if err := pass(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"scale 4 by 2", "written", "sum bucket 0, 4 elements, after 1, before 1",
		"scale 5 by 2", "written", "sum bucket 1, 5 elements, after 2, before 2", "wait", "wait",
	}
	if !slices.Equal(l.did, want) {
		t.Fatalf("did %q", l.did)
	}
	l.did = nil
	if err := errors.Join(r.Settle(), r.Settle()); err != nil {
		t.Fatal(err)
	}
	if want = []string{"follow 1", "scale 4 by 0.25", "follow 2", "scale 5 by 0.25"}; !slices.Equal(l.did, want) {
		t.Errorf("did %q", l.did)
	}

	// A pass that breaks leaves nothing to settle.
	r.Save()
	l.broken = "sum bucket 1, 5 elements, after 4, before 4"
	if err := pass(); !errors.Is(err, errBroken) {
		t.Fatalf("got %v", err)
	}
	if err := r.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := pass(); err != nil {
		t.Fatal(err)
	}
	l.did = nil
	if err := r.Settle(); err != nil || len(l.did) != 4 || l.did[0] != "follow 5" {
		t.Errorf("did %q, %v", l.did, err)
	}
}

// The way changes with the backend, and what one has summed up is settled all the same.
func TestBucketsChangeTheirWay(t *testing.T) {
	r, l := onDevice(t)
	pass := func() {
		r.Begin(true)
		r.GradReady(0)
		r.GradReady(1)
	}
	pass()
	if err := errors.Join(r.Flush(), r.Finish()); err != nil {
		t.Fatal(err)
	}
	stage := &transit{landed: map[int]bool{}, broken: -1}
	r.SetStaging(stage)
	l.did = nil
	if err := r.Settle(); err != nil || len(l.did) != 4 {
		t.Errorf("did %q, %v", l.did, err)
	}
	if pass(); !slices.Equal(stage.fetched, []int{0, 1}) {
		t.Errorf("fetched %v", stage.fetched)
	}
	r.Within(l, l, &sdk.Arena{ID: 2, Name: "gpu"})
	if err := r.Rollback(); err != nil {
		t.Fatal(err)
	}
	pass()
	if err := errors.Join(r.Flush(), r.Finish(), r.Settle()); err != nil || len(stage.fetched) != 2 || len(stage.stored) != 0 {
		t.Errorf("fetched %v, stored %v, %v", stage.fetched, stage.stored, err)
	}
}

// A trial goes the way of the buckets, with an event behind its sum, and waits for it.
func TestTrialOnTheDevice(t *testing.T) {
	r, l := onDevice(t)
	if err := r.Trial(16); err != nil {
		t.Fatal(err)
	}
	if want := []string{"written", "sum bucket -1, 4 elements, after 1, before 1", "wait", "follow 1", "download 0 parts"}; !slices.Equal(l.did, want) {
		t.Errorf("did %q", l.did)
	}
	l.broken = "wait"
	if err := r.Trial(16); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}
