package watch

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/rundir"
	"github.com/trainctl/trainctl/core/report/rundir/rundirtest"
)

// The block replaces the one before, and the last one stays.
func TestDisplay(t *testing.T) {
	w := rundirtest.New(t, afero.NewOsFs(), t.TempDir(), "a")
	w.Tell(&event.RunStarted{Name: "a"}, &event.RankStarted{Host: rundir.Hostname(), PID: os.Getpid()}, &event.PlanMade{Steps: 10})
	w.Steps(1, 5)
	var out bytes.Buffer
	d := &display{w: &out, run: rundir.Open(w.FS, w.Dir), live: true}
	if _, err := d.run.Update(); err != nil {
		t.Fatal(err)
	}
	if err := d.show(w.At, false); err != nil {
		t.Fatal(err)
	}
	first := out.String()
	if strings.Contains(first, event.EraseBlock) || !strings.HasSuffix(first, "A") || strings.Contains(first, "\x1b[1m") {
		t.Errorf("first: %q", first)
	}
	w.Steps(6, 10)
	w.Summary(event.Summary{Name: "a", Status: "ok", Steps: 10})
	if err := d.follow(context.Background()); err != nil { // it ends, because the run has
		t.Fatal(err)
	}
	last := strings.TrimPrefix(out.String(), first)
	if !strings.HasPrefix(last, event.EraseBlock+"a/1  ok\n") || !strings.HasSuffix(last, "\n") || !strings.Contains(last, "step 10/10") {
		t.Errorf("last: %q", last)
	}
}

// Stopping the watch leaves the last output on the screen, and the run as it is.
func TestInterrupted(t *testing.T) {
	w := rundirtest.New(t, afero.NewOsFs(), t.TempDir(), "a")
	var out bytes.Buffer
	d := &display{w: &out, run: rundir.Open(w.FS, w.Dir), live: true}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := d.follow(ctx); err != nil || !strings.HasSuffix(out.String(), "\n") {
		t.Errorf("%q, %v", out.String(), err)
	}
}
