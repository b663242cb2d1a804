package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

// traceEvent is an event of Chrome's trace format.
type traceEvent struct {
	Name, Cat, Ph string
	TS, Dur       float64
	PID, TID      int
	Args          struct{ Step int }
}

func timeline(t *testing.T, r rig.Run) []traceEvent {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(r.Dir, "timeline.json"))
	rig.Must(t, err)
	var trace struct{ TraceEvents []traceEvent }
	rig.Must(t, json.Unmarshal(b, &trace))
	return trace.TraceEvents
}

// Every rank's streams are there, nothing in a stream overlaps, and every step
// that was kept has one slice for each thing it does.
func TestTimeline(t *testing.T) {
	t.Parallel()
	p := rig.PlaceWith(t, rig.NormTables)
	r := p.Run(t, rig.Set("launch.nproc_per_node=2", "metrics.timeline=true", "ddp.bucket_cap_mb=0.001", "ddp.sync_batchnorm=true",
		"train.accumulate_steps=2", "train.epochs=30", "train.max_steps=130", "train.eval_every=0", "checkpoint.every=100 steps")...)
	buckets := r.Summary.Comm.Buckets
	if buckets < 2 {
		t.Fatalf("%d buckets", buckets)
	}
	free, count := map[[2]int]float64{}, map[string]int{}
	for _, e := range timeline(t, r) {
		if e.Ph == "M" {
			continue
		}
		row := [2]int{e.PID, e.TID}
		if e.TS < free[row]-1e-3 || e.Dur < 0 {
			t.Fatalf("%+v begins before %v", e, free[row])
		}
		free[row] = e.TS + e.Dur
		count[fmt.Sprintf("%d/%s/%s/%d", e.PID, e.Cat, e.Name, e.Args.Step)]++
	}
	for rank := range 2 {
		for step := 1; step <= 130; step++ {
			want := func(what string, n int) {
				if step > 50 && step <= 80 {
					n = 0
				}
				if got := count[fmt.Sprintf("%d/%s/%d", rank, what, step)]; got != n {
					t.Errorf("rank %d, step %d: %d × %s, want %d", rank, step, got, what, n)
				}
			}
			want("compute/forward", 2)
			want("compute/backward", 2)
			want("compute/wait", 1)
			want("compute/optimizer", 1)
			want("data/batch 0", 1)
			want("data/batch 1", 1)
			want("communication/totals", 1)
			compared := 0
			if step == 100 || step == 130 {
				compared = 1 // a checkpoint is due: ranks compare their states
			}
			want("communication/all_gather", 4+compared) // two layers, two micro-steps
			for b := range buckets {
				want(fmt.Sprint("communication/bucket ", b), 1)
			}
		}
	}
	if count["0/checkpoint/snapshot/100"] != 1 || count["1/checkpoint/snapshot/100"] != 0 {
		t.Error("the checkpoint after step 100 is rank 0's, once")
	}
}

func TestNoTimelineUnlessAsked(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	p.Train(t).Expect(t, 0)
	if _, err := os.Stat(filepath.Join(p.RunDir(1), "timeline.json")); !os.IsNotExist(err) {
		t.Errorf("timeline.json is there: %v", err)
	}
}
