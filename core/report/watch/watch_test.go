package watch

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mattn/go-runewidth"
	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/rundir"
	"github.com/trainctl/trainctl/core/report/rundir/rundirtest"
)

func recorded(t *testing.T) (*rundirtest.Run, *rundir.Reader) {
	t.Helper()
	w := rundirtest.New(t, afero.NewMemMapFs(), "/runs", "a")
	w.Tell(&event.RunStarted{Name: "a", WorldSize: 2}, &event.RankStarted{Host: "elsewhere", PID: 1}, &event.PlanMade{Steps: 400, LogFreq: 50})
	w.Steps(1, 100)
	w.Tell(&event.EvalDone{Step: 100, Loss: 0.5, Accuracy: 0.75}, &event.Warning{Message: "low \x1b[31mmemory\r\n here"},
		&event.RankFailed{FailedRank: 1, Host: "h", Signal: "SIGKILL", Message: strings.Repeat("long ", 1000)})
	return w, rundir.Open(w.FS, w.Dir)
}

func update(t *testing.T, r *rundir.Reader) *rundir.Run {
	t.Helper()
	if _, err := r.Update(); err != nil {
		t.Fatal(err)
	}
	return r.Run
}

// Every line fits, at any width, and text of the run does not control the terminal.
func TestLinesFit(t *testing.T) {
	_, reader := recorded(t)
	r := update(t, reader)
	usage := map[int]float64{}
	for rank := range 64 {
		usage[rank] = 0.5
	}
	for columns := 40; columns <= 200; columns++ {
		lines := Lines(r, Options{Columns: columns, Now: rundirtest.Noon, Usage: usage})
		for _, l := range lines {
			if w := runewidth.StringWidth(l); w > columns || strings.ContainsAny(l, "\x1b\r\n\t") {
				t.Fatalf("%d columns: a line has %d: %q", columns, w, l)
			}
		}
		text := strings.Join(lines, "\n")
		for _, want := range []string{"a/1", "loss ", "speed ", "█", "eval ", "rank 0: 0.50", "low  [31m", "failure: rank 1"} {
			if !strings.Contains(text, want) {
				t.Fatalf("%d columns lack %q:\n%s", columns, want, text)
			}
		}
	}
	if n := len(Lines(r, Options{Columns: 80, Rows: 5, Now: rundirtest.Noon})); n != 5 {
		t.Errorf("%d lines, want 5", n)
	}
	if text := strings.Join(Lines(r, Options{Columns: 80, Now: rundirtest.Noon, Color: true}), "\n"); !strings.Contains(text, "\x1b[31m") {
		t.Error("a failure has no colour")
	}
}

func TestSpark(t *testing.T) {
	var c rundir.Curves
	for _, v := range []float64{8, 7, 6, 5, 4, 3, 2, 1} {
		var i rundir.Interval
		i.Cells[rundir.Loss] = rundir.Cell{Sum: v, N: 1}
		c.Intervals = append(c.Intervals, i)
	}
	c.Intervals[2].Cells[rundir.Loss] = rundir.Cell{Bad: 1}
	c.Intervals[3].Cells[rundir.Loss] = rundir.Cell{}
	for columns, want := range map[int]string{8: "█▇× ▄▃▂▁", 100: "█▇× ▄▃▂▁", 4: "█×▃▁"} {
		if got := spark(&c, rundir.Loss, columns); got != want {
			t.Errorf("%d columns: %q, want %q", columns, got, want)
		}
	}
}

// Plain lines say each thing once.
func TestPlain(t *testing.T) {
	w, reader := recorded(t)
	var p Plain
	now := w.At
	first := p.Next(update(t, reader), now)
	if len(first) != 4 || !strings.Contains(first[2], "step 100/400") || !strings.HasSuffix(first[3], "running") {
		t.Errorf("%q", first)
	}
	w.Steps(101, 120)
	if got := p.Next(update(t, reader), now); got != nil {
		t.Errorf("%q after few steps", got)
	}
	w.Steps(121, 150)
	w.Summary(event.Summary{Name: "a", Status: "ok", Steps: 150})
	got := p.Next(update(t, reader), now)
	if len(got) != 2 || !strings.HasPrefix(got[0], "step 150/400") || got[1] != "a/1  ok" {
		t.Errorf("%q", got)
	}
}

// A process that computes uses processor time; that of another host is unknown.
func TestUsage(t *testing.T) {
	self := rundir.Process{PID: os.Getpid(), Seen: time.Now()}
	if _, ok := self.CPU(); !ok {
		t.Skip("this system has no /proc")
	}
	r := map[int]Place{0: {rundir.Hostname(), self}, 1: {"elsewhere", self}}
	var u Usage
	if got := u.Measure(r, rundirtest.Noon); len(got) != 0 {
		t.Errorf("%v in the first call", got)
	}
	before, _ := self.CPU()
	for now := before; now < before+50*time.Millisecond; now, _ = self.CPU() {
	}
	got := u.Measure(r, rundirtest.Noon.Add(time.Second))
	if d := cmp.Diff(1, len(got)); d != "" || got[0] < 0.04 {
		t.Errorf("%v", got)
	}
}
