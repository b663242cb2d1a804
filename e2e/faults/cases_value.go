//go:build linux

package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"time"

	"github.com/trainctl/trainctl/e2e/rig"
)

// jumpingClock lets the clock of every process of a run jump, forth, back and
// forth. The machine's own clock stays as it is.
func jumpingClock(t *trial) {
	p := newPlace(t)
	args := rig.Steps800("train.epochs=600", `checkpoint.every="200 steps"`, `launch.grace="3s"`)
	a := p.Complete(t, 1, args...)
	r := p.Start(t, args...)
	p.WaitForSteps(t, r, 2, 20)
	var jumps []int32
	for _, seconds := range []int32{3600, -3600, 0} {
		for _, q := range p.Processes() {
			jump(t, q.PID, seconds)
		}
		before := len(rig.EventsOf[rig.StepEvent](t, p.RunDir(2)))
		jumps = append(jumps, seconds)
		rig.Eventually(t, "steps after the jump", func() bool {
			return len(rig.EventsOf[rig.StepEvent](t, p.RunDir(2))) > before+50 || len(p.Processes()) == 0
		})
	}
	t.ended(r.Wait(t), 0)
	rig.SameParams(t, a, p.Summary(t, 2))
	first, last := span(t, filepath.Join(p.RunDir(2), "events.jsonl"))
	if last.Sub(first) < 90*time.Minute {
		t.Errorf("by the events' times the run was from %v to %v: the clock did not jump", first, last)
	}
	t.saw("clocks of all processes jumped by %v s (events lie %v apart), equal bits", jumps, last.Sub(first).Round(time.Minute))
}

// span is the earliest and the latest time in a file of events.
func span(t rig.TB, path string) (first, last time.Time) {
	t.Helper()
	for line := range strings.Lines(rig.ReadFile(path)) {
		var e struct {
			Time time.Time `json:"ts"`
		}
		if json.Unmarshal([]byte(line), &e) != nil || e.Time.IsZero() {
			continue
		}
		if first.IsZero() || e.Time.Before(first) {
			first = e.Time
		}
		if e.Time.After(last) {
			last = e.Time
		}
	}
	return first, last
}

func nonFinite(t *trial) {
	p := newPlace(t)
	_, err := rig.Build(p.Dir, "e2e/testdata/spiked")
	rig.Must(t, err)
	p.Train(t, rig.Set(`dataset.plugin="./spiked"`, `precision={plugin="amp", options={level="O1", dtype="fp16"}}`)...).Expect(t, 0)
	skipped := 0
	for _, s := range rig.EventsOf[rig.StepEvent](t, p.RunDir(1)) {
		if s.Skipped {
			skipped++
		}
	}
	if skipped == 0 {
		t.Error("no step was skipped for the overflow")
	}
	t.saw("a spike: exit 0, %d steps skipped", skipped)
	p.AddFaultyPlugin(t)
	for name, args := range map[string][]string{
		"without amp": append(p.FaultArgs("dataset", "nan"), rig.Set("train.max_skips=5")...),
		"with amp":    append(p.FaultArgs("dataset", "nan"), rig.Set(rig.FP16, "train.max_skips=5")...),
	} {
		r := p.Train(t, args...)
		r.Expect(t, 1).Matches(t, `(?i)non-finite|NaN|diverge`, `step \d+`).OneFailureBlock(t)
		if s := p.Summary(t, len(rig.Glob(filepath.Dir(p.RunDir(1)), "[0-9]*"))); s.Status != "diverged" {
			t.Errorf("%s: status %q", name, s.Status)
		}
	}
	t.saw("lasting: exit 1, status diverged, with and without amp")
}
