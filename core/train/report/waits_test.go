package report

import (
	"slices"
	"testing"
	"time"
)

// The rank that waited least came last: its wait is communication, the rest of
// the others' is imbalance. Medians are over steps, and over the last ones alone.
func TestWaitsAreDivided(t *testing.T) {
	a, b := newWaits(), newWaits()
	for step := range keptWaits + 100 {
		own, other := time.Millisecond, 3*time.Millisecond
		if step < 100 { // forgotten
			own, other = time.Hour, time.Hour
		}
		if step%2 == 1 { // the ranks are late alternately
			own, other = other, own
		}
		a.add(own)
		b.add(other)
	}
	if n := len(a.last()); n != keptWaits {
		t.Fatalf("%d steps kept", n)
	}
	if exposed, imbalance := DivideWaits([][]float32{a.last(), b.last()}); exposed != 1 || imbalance != 2 {
		t.Errorf("exposed %v ms, imbalance %v ms", exposed, imbalance)
	}
	if exposed, imbalance := DivideWaits([][]float32{{0.5, 4, 0.25}, {}}); exposed != 0 || imbalance != 0 {
		t.Errorf("without steps of all ranks: %v and %v", exposed, imbalance)
	}
	if exposed, imbalance := DivideWaits([][]float32{{0.5, 4, 0.25}}); exposed != 0.5 || imbalance != 0 {
		t.Errorf("a rank alone: %v and %v", exposed, imbalance)
	}
}

// A rank is slow if it is last in nearly all steps, not if ranks alternate.
func TestSlowestRank(t *testing.T) {
	short, long := make([]float32, 100), make([]float32, 100)
	for i := range long {
		short[i], long[i] = 1, 9
	}
	turns := slices.Concat(short[:50], long[:50])
	for _, c := range []struct {
		ranks [][]float32
		want  int
	}{
		{[][]float32{long, short}, 1},
		{[][]float32{short, long, long}, 0},
		{[][]float32{turns, slices.Concat(long[:50], short[:50])}, -1},
		{[][]float32{long[:20], short[:20]}, -1},
		{[][]float32{long}, -1},
	} {
		if got := Slowest(c.ranks); got != c.want {
			t.Errorf("the slowest of %d ranks is %d, want %d", len(c.ranks), got, c.want)
		}
	}
}
