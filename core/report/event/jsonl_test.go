package event

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// writes keeps each Write as the numbers of the events in it.
type writes struct {
	of   [][]uint64
	fail int // the n-th; 0: none
}

func (w *writes) Write(b []byte) (int, error) {
	var seqs []uint64
	for line := range bytes.Lines(b) {
		r, err := Decode(line)
		if err != nil {
			return 0, err
		}
		seqs = append(seqs, r.Seq)
	}
	if w.of = append(w.of, seqs); len(w.of) == w.fail {
		return 0, errors.New("gone")
	}
	return len(b), nil
}

// Quick steps are written together, none waits longer than gather, and whatever
// else happens takes them along in order.
func TestQuickStepsAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w writes
		b := NewBus(0, NewJSONLines(&w, nil))
		step := &StepDone{}
		emit := func(n int, pause time.Duration) {
			for range n {
				time.Sleep(pause)
				b.Emit(step)
			}
		}
		time.Sleep(time.Second)
		emit(2, gather) // 1, 2: slow
		emit(3, gather/10)
		time.Sleep(gather) // 3, 4, 5
		emit(2, gather/10)
		b.Emit(&PhaseChanged{Phase: "eval"}) // 6, 7 and 8
		emit(1, gather/10)
		if err := b.Close(); err != nil { // 9
			t.Fatal(err)
		}
		want := [][]uint64{{1}, {2}, {3, 4, 5}, {6, 7, 8}, {9}}
		if !slices.EqualFunc(w.of, want, slices.Equal) {
			t.Errorf("written %v, want %v", w.of, want)
		}
		time.Sleep(time.Second) // no timer writes after Close
		if len(w.of) != len(want) {
			t.Error("written after Close")
		}
	})
}

func TestManyStepsAreWrittenBeforeTheTime(t *testing.T) {
	var w writes
	b := NewBus(0, NewJSONLines(&w, nil))
	now := noon
	b.now = func() time.Time { return now }
	for range 2 * gathered / 100 {
		b.Emit(&StepDone{})
	}
	if len(w.of) < 3 {
		t.Errorf("%d writes", len(w.of))
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	var all []uint64
	for _, seqs := range w.of {
		all = append(all, seqs...)
	}
	if len(all) != 2*gathered/100 || !slices.IsSorted(all) {
		t.Errorf("%d events", len(all))
	}
}

// A write that fails between two events is reported with the next event.
func TestLateFailureIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		w := &writes{fail: 2}
		b := NewBus(0, NewJSONLines(w, func(err error) { told = append(told, err.Error()) }))
		b.Emit(&StepDone{})
		b.Emit(&StepDone{})
		time.Sleep(gather)
		synctest.Wait()
		b.Emit(&StepDone{})
		if len(told) != 1 || !strings.Contains(told[0], "gone") || len(w.of) != 2 {
			t.Errorf("told %q after writes %v", told, w.of)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
