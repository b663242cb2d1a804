package timeline

import (
	"strings"
	"testing"
	"time"
)

// recorded are the slices of steps from 1 that make perStep each.
func recorded(steps, perStep int) (all []Slice) {
	for step := 1; step <= steps; step++ {
		for range perStep {
			all = append(all, Slice{Step: step, Name: "all_gather"})
		}
	}
	return all
}

// ResNet-50 has 53 batch norms: two exchanges each, in buckets 2·6, and the rest.
const resnet50 = 2*53 + 2*6 + 10

// Everything of 64 ranks fits; more ranks keep fewer steps, all of them whole.
func TestTracesAreBounded(t *testing.T) {
	all := recorded(2*Steps, resnet50)
	if kept, note := Cut(all, Share(64)); len(kept) != len(all) || note != "" {
		t.Errorf("64 ranks: %d of %d slices, %s", len(kept), len(all), note)
	}
	for _, world := range []int{128, 1024, 100000} {
		kept, note := Cut(all, Share(world))
		if len(kept) > Share(world) || len(kept)%resnet50 != 0 || !strings.Contains(note, "are omitted") {
			t.Errorf("%d ranks: %d slices, %s", world, len(kept), note)
		}
		if len(kept) > 0 && (kept[0].Step != 1 || len(kept) > resnet50 && kept[len(kept)-1].Step != 2*Steps) {
			t.Errorf("%d ranks: not both ends are kept", world)
		}
	}
	if kept, note := Cut(recorded(1, 10), 5); len(kept) != 0 || note != "steps 1 to 1 are omitted: 10 of 10 slices" {
		t.Errorf("%d, %s", len(kept), note)
	}
}

// A recorder's memory is bounded, and no step is kept in part.
func TestRecorderIsBounded(t *testing.T) {
	r := New(time.Now(), 1<<30)
	if n := cap(r.head) + cap(r.tail); n > 2*room {
		t.Errorf("room for %d slices", n)
	}
	r.head, r.tail = make([]Slice, 0, 16), make([]Slice, 0, 16)
	for step, n := range slicesPerStep(r, 1, 4, 7) {
		if n != 7 {
			t.Errorf("%d of 7 slices of step %d", n, step)
		}
	}
}
