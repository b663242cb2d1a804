package timeline

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestNilRecorderDoesNothing(t *testing.T) {
	var r *Recorder
	r.Step(1)
	r.Span(Data, "batch", 0, 0, time.Now(), time.Now())
	if m := r.Since(Compute, "forward", -1, r.Now()); m != 0 || r.Slices() != nil {
		t.Errorf("mark %v, slices %v", m, r.Slices())
	}
}

// slicesPerStep runs a recorder over steps that make perStep slices each and
// counts what was kept, by step.
func slicesPerStep(r *Recorder, from, steps, perStep int) map[int]int {
	for i := range steps {
		r.Step(from + i)
		for range perStep {
			r.Since(Compute, "work", -1, r.Now())
		}
	}
	kept := map[int]int{}
	for _, s := range r.Slices() {
		kept[s.Step]++
	}
	return kept
}

// Whatever the run is like, the first and the last steps are kept whole, and
// nothing twice.
func TestKeepsBothEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.IntRange(1, 1000).Draw(t, "from")
		steps := rapid.IntRange(1, 4*Steps).Draw(t, "steps")
		perStep := rapid.IntRange(1, 5).Draw(t, "perStep")
		kept := slicesPerStep(New(time.Now(), perStep), from, steps, perStep)
		for i := range steps {
			want := 0
			if i < Steps || i >= steps-Steps {
				want = perStep
			}
			if kept[from+i] != want {
				t.Fatalf("step %d of %d: %d slices, want %d", i+1, steps, kept[from+i], want)
			}
		}
	})
}

// More slices than were asked for cost steps, not memory, and no step is cut in half.
func TestMoreThanExpected(t *testing.T) {
	r := New(time.Now(), 1)
	size := cap(r.head) + cap(r.tail)
	for step, n := range slicesPerStep(r, 1, 1000, 7) {
		if n != 7 && step > Steps {
			t.Errorf("%d of 7 slices of step %d", n, step)
		}
	}
	if got := cap(r.head) + cap(r.tail); got != size {
		t.Errorf("room for %d slices, it was %d", got, size)
	}
}

func TestRecordingDoesNotAllocate(t *testing.T) {
	r := New(time.Now(), 2)
	step := 0
	if n := testing.AllocsPerRun(500, func() {
		step++
		r.Step(step)
		r.Since(Compute, "forward", -1, r.Now())
		r.Span(Communication, "bucket", 1, 8, r.origin, r.origin)
	}); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
}

func us(n int) time.Duration { return time.Duration(n) * time.Microsecond }

func TestWrite(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, [][]Slice{{
		{Stream: Compute, Name: "forward", Index: -1, Step: 1, Start: us(10), Length: us(5)},
		{Stream: Communication, Name: "bucket", Index: 1, Step: 1, Bytes: 64, Start: us(14), Length: us(6)},
		{Stream: Communication, Name: "bucket", Index: 0, Step: 1, Bytes: 32, Start: us(12), Length: us(4)}, // seen later, and their clocks differ
	}, {}}); err != nil {
		t.Fatal(err)
	}
	const want = `{"displayTimeUnit":"ms","traceEvents":[
{"name":"process_name","ph":"M","ts":0,"dur":0,"pid":0,"tid":0,"args":{"name":"rank 0"}},
{"name":"thread_name","ph":"M","ts":0,"dur":0,"pid":0,"tid":0,"args":{"name":"compute"}},
{"name":"forward","cat":"compute","ph":"X","ts":10,"dur":5,"pid":0,"tid":0,"args":{"step":1}},
{"name":"thread_name","ph":"M","ts":0,"dur":0,"pid":0,"tid":1,"args":{"name":"communication"}},
{"name":"bucket 0","cat":"communication","ph":"X","ts":12,"dur":4,"pid":0,"tid":1,"args":{"bytes":32,"step":1}},
{"name":"bucket 1","cat":"communication","ph":"X","ts":16,"dur":4,"pid":0,"tid":1,"args":{"bytes":64,"step":1}},
{"name":"thread_name","ph":"M","ts":0,"dur":0,"pid":0,"tid":2,"args":{"name":"data"}},
{"name":"thread_name","ph":"M","ts":0,"dur":0,"pid":0,"tid":3,"args":{"name":"checkpoint"}},
{"name":"process_name","ph":"M","ts":0,"dur":0,"pid":1,"tid":0,"args":{"name":"rank 1"}},
{"name":"thread_name","ph":"M","ts":0,"dur":0,"pid":1,"tid":0,"args":{"name":"compute"}},
{"name":"thread_name","ph":"M","ts":0,"dur":0,"pid":1,"tid":1,"args":{"name":"communication"}},
{"name":"thread_name","ph":"M","ts":0,"dur":0,"pid":1,"tid":2,"args":{"name":"data"}},
{"name":"thread_name","ph":"M","ts":0,"dur":0,"pid":1,"tid":3,"args":{"name":"checkpoint"}}
]}
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
	if !json.Valid(out.Bytes()) {
		t.Error("no valid JSON")
	}
}

// Slices of one stream never overlap and never end later than they did,
// unless another one of the stream did.
func TestSlicesOfAStreamTakeTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []Slice
		var last time.Duration
		for range rapid.IntRange(0, 20).Draw(t, "n") {
			s := Slice{Stream: Communication, Start: us(rapid.IntRange(0, 50).Draw(t, "start")), Length: us(rapid.IntRange(0, 20).Draw(t, "length"))}
			all = append(all, s)
			last = max(last, s.Start+s.Length)
		}
		free := time.Duration(0)
		for _, s := range inTurn(all, Communication) {
			if s.Start < free || s.Length < 0 {
				t.Fatalf("%v begins before %v", s, free)
			}
			free = s.Start + s.Length
		}
		if free > last {
			t.Fatalf("the stream ends at %v, it was %v", free, last)
		}
	})
}
