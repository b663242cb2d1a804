package main

import (
	"math"
	"strings"
	"testing"
	"time"
)

// Flags that name no part, or no measurement, are refused.
func TestFlagsAreChecked(t *testing.T) {
	if _, err := parse([]string{"-only", "heal,copy", "-link", "0.5"}); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{"-only everything", "-pairs 1", "-steps 10", "-link 0", "-segments 1", "-segment 0s"} {
		if _, err := parse(strings.Fields(wrong)); err == nil || !strings.Contains(err.Error(), strings.Fields(wrong)[0]) {
			t.Errorf("%s: error %v", wrong, err)
		}
	}
}

// The others have gone on when a new group has ended a step; what had ended before and is done again is
// repeated.
func TestHealing(t *testing.T) {
	begin := time.Unix(1000, 0)
	at := func(n, ms int, group string) step {
		return step{n: n, at: begin.Add(time.Duration(ms) * time.Millisecond), group: group}
	}
	killed := begin.Add(25 * time.Millisecond)
	before := []step{at(1, 10, "1"), at(2, 20, "1"), at(3, 30, "1")} // the third one had all parts already
	if _, _, done := healing(before, killed); done {
		t.Error("a step of the old group is taken for one of the next")
	}
	for first, repeated := range map[int]int{4: 0, 2: 2} {
		seconds, again, done := healing(append(before, at(first, 525, "2")), killed)
		if !done || seconds != 0.5 || again != repeated {
			t.Errorf("step %d follows after %v s, %d repeated", first, seconds, again)
		}
	}
}

// A segment's steps are those that end in it, without the one that was stopped and those that fill caches.
func TestStepsOfASegment(t *testing.T) {
	begin := time.Unix(1000, 0)
	var all []step
	for i := range 40 { // 10 ms each, after one that was stopped for 5 s
		all = append(all, step{n: i + 1, at: begin.Add(time.Duration(5000+10*i) * time.Millisecond)})
	}
	w := window{begin: begin.Add(4995 * time.Millisecond), end: begin.Add(5205 * time.Millisecond)}
	if ms, n := w.meanStep(all); n != 21 || math.Abs(ms-10) > 1e-9 {
		t.Errorf("%d steps of %v ms", n, ms)
	}
	if ms, n := (&window{begin: w.end, end: w.end.Add(30 * time.Millisecond)}).meanStep(all); n != 3 || ms != 0 {
		t.Errorf("%d steps of %v ms in a segment that is too short", n, ms)
	}
}

func TestUseOfALink(t *testing.T) {
	var sent []sample
	for i := range 101 { // 125 MB in the second half of a second
		sent = append(sent, sample{time.UnixMilli(int64(10 * i)), 1e6 + max(0, float64(i-50))*2.5e6})
	}
	if c := use(sent, 2); c.Bytes != 125e6 || math.Abs(c.Used-1) > 0.01 {
		t.Errorf("%+v", c)
	}
}

func TestRate(t *testing.T) {
	var all []step
	for i := range 200 {
		all = append(all, step{n: i + 1, at: time.UnixMilli(int64(max(100*i, 9000+10*i)))}) // faster at first
	}
	if got := rate(all); math.Abs(got-10) > 1 {
		t.Errorf("%.1f steps per second", got)
	}
}
