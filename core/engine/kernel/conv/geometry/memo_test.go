package geometry

import (
	"sync"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

func TestMemoKeepsOneValueForEachShapeDirectionAndLevel(t *testing.T) {
	var m Memo[int]
	calls := 0
	of := func(n, c int, d Direction) int {
		return m.Of(&Shape{N: n, C: c}, d, func() int { calls++; return calls })
	}
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		before := calls
		first := of(1, 3, ToOutput)
		if again := of(2, 3, ToOutput); again != first {
			t.Errorf("got %d, then %d for more images", first, again)
		}
		of(1, 4, ToOutput)
		of(1, 3, ToInput)
		if calls != before+3 {
			t.Errorf("%d values were worked out, want one for each of three", calls-before)
		}
	})
}

func TestMemoOfBatches(t *testing.T) {
	var m Memo[int]
	images := func(p *Shape) int { return p.N*100 + p.Batch }
	whole := Shape{N: 6, C: 1}
	for _, tc := range []struct {
		p    Shape
		want int
	}{{whole, 600}, {whole.Share(2), 600}, {Shape{N: 2, C: 1}, 200}, {Shape{N: 9, C: 1}, 700}, {Shape{N: 7, C: 1}, 700}} {
		if got := m.OfBatch(&tc.p, 7, ToOutput, images); got != tc.want {
			t.Errorf("%d of %d images: got %d, want %d", tc.p.N, tc.p.Images(), got, tc.want)
		}
	}
	if got := m.Of(&whole, ToOutput, func() int { return 1 }); got != 1 {
		t.Errorf("got %d for any number of images", got)
	}
}

func TestMemoOfManyGoroutines(t *testing.T) {
	var m Memo[int]
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for c := range 100 {
				if v := m.Of(&Shape{C: c}, ToOutput, func() int { return c }); v != c {
					t.Errorf("got %d for %d", v, c)
				}
			}
		})
	}
	all.Wait()
}
