package data

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// slots is a data set whose input is its sample's index. It fails the test's
// rules of use: a slot is requested again only after it was waited for.
type slots struct {
	t       *rapid.T
	mem     [][]int64
	pending []bool
	fail    int // fail the n-th wait; 0: never
	end     int // end the data set at the n-th wait; 0: never
	waits   int
}

func (s *slots) Request(slot int, _ sdk.Split, epoch int, _ uint64, indices []int64) error {
	if s.pending[slot] {
		s.t.Fatalf("slot %d requested twice", slot)
	}
	s.pending[slot] = true
	s.mem[slot] = append(s.mem[slot][:0], indices...)
	return nil
}

func (s *slots) Wait(slot int) ([]byte, []byte, error) {
	if !s.pending[slot] {
		s.t.Fatalf("slot %d waited for without a request", slot)
	}
	s.pending[slot] = false
	switch s.waits++; {
	case s.waits == s.fail:
		return nil, nil, errors.New("boom")
	case s.end > 0 && s.waits >= s.end:
		return nil, nil, fmt.Errorf("fill: %w", sdk.ErrEndOfData)
	}
	return tensor.Bytes(s.mem[slot]), nil, nil
}

// Whatever the sizes, batches come in order, a batch keeps its content until
// the next call, passes may end early, and all free slots are kept busy.
func TestLoader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(2, 4).Draw(t, "slots")
		size := rapid.IntRange(1, 5).Draw(t, "batch")
		src := &slots{t: t, mem: make([][]int64, k), pending: make([]bool, k)}
		l := NewLoader(src, k, size, 1)
		for pass := range 3 {
			indices := make([]int64, rapid.IntRange(0, 20).Draw(t, "n"))
			for i := range indices {
				indices[i] = int64(100*pass + i)
			}
			if err := l.Start(sdk.Train, pass, indices, 0); err != nil {
				t.Fatal(err)
			}
			stop := rapid.IntRange(0, l.Len()).Draw(t, "stop")
			var held Batch
			var heldFirst int64
			for b := range stop {
				if b > 0 && tensor.View[int64](held.Input)[0] != heldFirst {
					t.Fatal("a batch changed before the next was asked for")
				}
				got, err := l.Next()
				if err != nil {
					t.Fatal(err)
				}
				in := tensor.View[int64](got.Input)
				if got.Rows != len(in) || got.Rows != min(size, len(indices)-b*size) {
					t.Fatalf("batch %d: %d rows, %d samples", b, got.Rows, len(in))
				}
				for i, v := range in {
					if v != indices[b*size+i] {
						t.Fatalf("batch %d sample %d is %d", b, i, v)
					}
				}
				held, heldFirst = got, in[0]
			}
		}
		if err := l.Stop(); err != nil {
			t.Fatal(err)
		}
		for s, p := range src.pending {
			if p {
				t.Fatalf("slot %d still pending after Stop", s)
			}
		}
	})
}

func TestLoaderReportsAFailedBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := &slots{t: t, mem: make([][]int64, 2), pending: make([]bool, 2), fail: 2}
		l := NewLoader(src, 2, 1, 1)
		if err := l.Start(sdk.Train, 0, []int64{1, 2, 3}, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Next(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Next(); err == nil {
			t.Fatal("the second batch's failure was lost")
		}
	})
}

// A data set that ends early ends the pass, not the loader: nothing stays
// pending, and the next pass is whole.
func TestLoaderEndsEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, n := rapid.IntRange(2, 4).Draw(t, "slots"), rapid.IntRange(1, 8).Draw(t, "n")
		given := rapid.IntRange(0, n-1).Draw(t, "given")
		src := &slots{t: t, mem: make([][]int64, k), pending: make([]bool, k), end: given + 1}
		l := NewLoader(src, k, 1, 1)
		for range 2 {
			if err := l.Start(sdk.Train, 0, make([]int64, n), 0); err != nil {
				t.Fatal(err)
			}
			for range given {
				if _, err := l.Next(); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if _, err := l.Next(); !errors.Is(err, ErrEnd) {
					t.Fatalf("after %d batches: %v", given, err)
				}
			}
			if l.Left() != 0 || l.taken != given {
				t.Fatalf("%d left, %d taken of %d", l.Left(), l.taken, given)
			}
			src.waits = 0
		}
		if err := l.Stop(); err != nil {
			t.Fatal(err)
		}
		for s, p := range src.pending {
			if p {
				t.Fatalf("slot %d still pending", s)
			}
		}
	})
}
