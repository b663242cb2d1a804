package data

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// samples is a data set whose input is its sample's index, and that ends before
// its n-th batch; 0: never.
type samples struct {
	mem   [3][]int64
	n     int
	done  int
	pause time.Duration // before each batch
}

func (s *samples) Request(slot int, _ sdk.Split, _ int, _ uint64, indices []int64) error {
	s.mem[slot] = slices.Clone(indices)
	return nil
}

func (s *samples) Wait(slot int) ([]byte, []byte, error) {
	time.Sleep(s.pause)
	if s.done++; s.done == s.n {
		return nil, nil, sdk.ErrEndOfData
	}
	return tensor.Bytes(s.mem[slot]), nil, nil
}

// copier notes what it copies; broken is what Fed returns.
type copier struct {
	fed, forgot int
	broken      error
}

func (c *copier) Prefetch(_, _ []byte) error { c.fed++; return nil }
func (c *copier) WaitPrefetched() error      { return c.broken }
func (c *copier) DropPrefetched()            { c.forgot++ }

func newTestFeeder(t *testing.T, src *samples, device Device) *Feeder {
	t.Helper()
	s, err := NewSampler(Config{Pad: PadRepeat}, 1, 10, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	return NewFeeder(NewLoader(src, len(src.mem), 4, 1), s, Division{Step: 4, Micro: 4, Accumulate: 1}, device)
}

func mustNext(t *testing.T, f *Feeder) []int64 {
	t.Helper()
	b, _, err := f.Next(0)
	if err != nil {
		t.Fatal(err)
	}
	return tensor.View[int64](b.Input)
}

// Batches come in order whether they were taken ahead, peeked at, or neither,
// and count as used when a pass gets them.
func TestFeederGivesBatchesInOrder(t *testing.T) {
	c := &copier{}
	f := newTestFeeder(t, &samples{}, c)
	if err := f.Start(0, 0); err != nil || c.forgot != 1 {
		t.Fatalf("%v, %d forgotten", err, c.forgot)
	}
	if n := f.Rows(2); n != 8 || f.Left() != 3 {
		t.Errorf("%d rows, %d left", n, f.Left())
	}
	var got []int64
	got = append(got, mustNext(t, f)...)
	f.Prefetch()
	f.Prefetch()
	if c.fed != 1 || f.Left() != 2 || f.Used() != 1 {
		t.Errorf("%d copied, %d left, %d used", c.fed, f.Left(), f.Used())
	}
	got = append(got, mustNext(t, f)...)
	if err := f.Peek(); err != nil || f.Used() != 2 || f.Left() != 1 {
		t.Errorf("%v, %d used, %d left", err, f.Used(), f.Left())
	}
	if n := f.Rows(1); n != 2 {
		t.Errorf("the last batch has %d rows", n)
	}
	got = append(got, mustNext(t, f)...)
	f.Prefetch() // nothing is left
	if want := []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(got, want) || f.Used() != 3 || f.Left() != 0 || c.fed != 1 {
		t.Errorf("got %v, %d used, %d left, %d copied", got, f.Used(), f.Left(), c.fed)
	}
	f.waited, f.hidden = 5, 3
	if total, idle := f.Waited(); total != 5 || idle != 2 {
		t.Errorf("waited %v, %v while nothing was computed", total, idle)
	}
	if total, idle := f.Waited(); total != 0 || idle != 0 {
		t.Error("waits are counted twice")
	}
}

// Waiting for a batch while the device computes costs nothing but what the device waits for it.
func TestFeederDistinguishesWaits(t *testing.T) {
	f := newTestFeeder(t, &samples{pause: time.Millisecond}, &copier{})
	if err := f.Start(0, 0); err != nil {
		t.Fatal(err)
	}
	mustNext(t, f)
	total, idle := f.Waited()
	f.Prefetch()
	mustNext(t, f)
	if ahead, none := f.Waited(); total != idle || idle < time.Millisecond || ahead < time.Millisecond || none != 0 {
		t.Errorf("waited %v, %v of it while nothing was computed; then %v and %v", total, idle, ahead, none)
	}
}

// A pass over the rest of an epoch goes on after its offset, and counts the
// batches before it.
func TestFeederStartsInAnEpoch(t *testing.T) {
	f := newTestFeeder(t, &samples{}, nil)
	if err := f.Start(0, 4); err != nil {
		t.Fatal(err)
	}
	if got := mustNext(t, f); got[0] != 4 || f.Used() != 2 || f.Left() != 1 {
		t.Errorf("got %v, %d used, %d left", got, f.Used(), f.Left())
	}
	if err := f.Start(1, 99); err != nil || f.Left() != 0 {
		t.Errorf("%v, %d left after the end", err, f.Left())
	}
}

// What goes wrong while a batch is taken ahead is the error of the next call, once.
func TestFeederReportsErrorsOfPrefetching(t *testing.T) {
	broken := errors.New("no such copy engine")
	c := &copier{broken: broken}
	f := newTestFeeder(t, &samples{n: 3}, c)
	if err := f.Start(0, 0); err != nil {
		t.Fatal(err)
	}
	mustNext(t, f)
	f.Prefetch()
	if err := f.Peek(); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	c.broken = nil
	mustNext(t, f)
	f.Prefetch()
	if n := f.Left(); n != 1 { // found missing, and still to come
		t.Errorf("%d left", n)
	}
	if _, _, err := f.Next(0); !errors.Is(err, ErrEnd) || f.Left() != 0 {
		t.Errorf("got %v, %d left", err, f.Left())
	}
}
