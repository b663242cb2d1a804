package train

import (
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
		if step%2 == 1 { // ranks take turns at being late
			own, other = other, own
		}
		a.add(own)
		b.add(other)
	}
	if n := len(a.last()); n != keptWaits {
		t.Fatalf("%d steps kept", n)
	}
	if exposed, imbalance := divideWaits([][]float32{a.last(), b.last()}); exposed != 1 || imbalance != 2 {
		t.Errorf("exposed %v ms, imbalance %v ms", exposed, imbalance)
	}
	if exposed, imbalance := divideWaits([][]float32{{0.5, 4, 0.25}, {}}); exposed != 0 || imbalance != 0 {
		t.Errorf("without steps of all ranks: %v and %v", exposed, imbalance)
	}
	if exposed, imbalance := divideWaits([][]float32{{0.5, 4, 0.25}}); exposed != 0.5 || imbalance != 0 {
		t.Errorf("a rank alone: %v and %v", exposed, imbalance)
	}
}
