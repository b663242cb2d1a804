package rig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/plugin/flight"
	"github.com/trainctl/trainctl/core/report/event"
)

// EventsOf returns the events of one type in the events.jsonl of a run's directory.
func EventsOf[E event.Event](t TB, run string) (found []E) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(run, "events.jsonl"))
	Must(t, err)
	for line := range bytes.Lines(b) {
		r, err := event.Decode(line)
		if err != nil {
			continue // the last line is still being written
		}
		if e, ok := r.Event.(E); ok {
			found = append(found, e)
		}
	}
	return found
}

// StepEvent is an optimizer step in events.jsonl.
type StepEvent = *event.StepDone

// Checkpoints returns the directory of the n-th run's checkpoints.
func (p *Place) Checkpoints(n int) string { return filepath.Join(p.RunDir(n), "checkpoints") }

// NewestStep returns the step of the newest checkpoint in a directory, -1 without one.
func NewestStep(dir string) int {
	step := -1
	names, _ := filepath.Glob(filepath.Join(dir, "step-*"))
	for _, name := range names {
		var n int
		if _, err := fmt.Sscanf(filepath.Base(name), "step-%d", &n); err == nil && !strings.Contains(name, ".") {
			step = max(step, n)
		}
	}
	return step
}

// ResumedFrom returns the step from which the n-th run continued.
func (p *Place) ResumedFrom(t TB, n int) int {
	t.Helper()
	loaded := EventsOf[*event.CheckpointLoaded](t, p.RunDir(n))
	if len(loaded) == 0 {
		t.Fatalf("run %d loaded no checkpoint", n)
	}
	return loaded[0].Step
}

// LatestCheckpoint returns the content of the file latest among the n-th run's checkpoints.
func (p *Place) LatestCheckpoint(t TB, n int) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.Checkpoints(n), "latest"))
	Must(t, err)
	return strings.TrimSpace(string(b))
}

// WaitForCheckpoints waits until the n-th run has made that many checkpoints durable.
func (p *Place) WaitForCheckpoints(t TB, n, count int) {
	t.Helper()
	Eventually(t, "saved checkpoints", func() bool {
		b, _ := os.ReadFile(filepath.Join(p.RunDir(n), "events.jsonl"))
		return bytes.Count(b, []byte(`"event":"checkpoint_saved"`)) >= count
	})
}

// Glob returns the paths below a directory that match a pattern.
func Glob(dir, pattern string) []string {
	paths, _ := filepath.Glob(filepath.Join(dir, pattern))
	return paths
}

// ReadFile returns the content of a file, "" if it cannot be read.
func ReadFile(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

// RunDir returns the directory of the n-th run, from 1.
func (p *Place) RunDir(n int) string { return filepath.Join(p.Dir, "runs", "job", fmt.Sprint(n)) }

// Summary reads summary.json of the n-th run.
func (p *Place) Summary(t TB, n int) event.Summary {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.RunDir(n), "summary.json"))
	Must(t, err)
	var s event.Summary
	Must(t, json.Unmarshal(b, &s))
	return s
}

// RankLog reads the log of a rank in the n-th run.
func (p *Place) RankLog(t TB, n, rank int) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.RunDir(n), "logs", fmt.Sprintf("rank-%d.log", rank)))
	Must(t, err)
	return string(b)
}

// FlightReport reads what trainctl doctor --run prints for the n-th run.
func (p *Place) FlightReport(t TB, n int) flight.Report {
	t.Helper()
	var r flight.Report
	Must(t, json.Unmarshal([]byte(p.Trainctl(t, "doctor", "--json", "--run", p.RunDir(n)).Expect(t, 0).Stdout), &r))
	return r
}

// SameParams asserts that two runs ended with the same bits in every parameter.
func SameParams(t TB, a, b event.Summary) {
	t.Helper()
	if len(a.ParamsSHA256) == 0 || !slices.Equal(a.ParamsSHA256, b.ParamsSHA256) {
		t.Errorf("params_sha256 differ: %v and %v", a.ParamsSHA256, b.ParamsSHA256)
	}
}
