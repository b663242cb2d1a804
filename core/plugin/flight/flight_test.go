package flight

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

var update = flag.Bool("update", false, "rewrite testdata")

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// record writes a rank's file as a host does, and forgets to close it.
func record(t *testing.T, dir string, about About, flights ...shm.Flight) {
	t.Helper()
	head, err := json.Marshal(about)
	if err != nil {
		t.Fatal(err)
	}
	f, err := shm.CreateFlightFile(Path(dir, about.Rank, about.Attempt), head)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	for i := range flights {
		f.Add(&flights[i])
	}
}

func call(seq uint64, op sdk.Op, begun, ended time.Duration) shm.Flight {
	f := shm.Flight{
		Seq: seq, Op: uint8(op), DType: uint8(tensor.F32), Reduce: uint8(sdk.Sum), Bytes: 4096, Bucket: int32(seq) - 10, Generation: 2,
		Enqueued: noon.Add(time.Duration(seq) * time.Millisecond),
	}
	if op == sdk.OpBarrier {
		f.DType, f.Bytes, f.Bucket = 0, 0, -1
	}
	if begun > 0 {
		f.Started = f.Enqueued.Add(begun)
	}
	if ended > 0 {
		f.Ended = f.Started.Add(ended)
	}
	return f
}

func about(rank, attempt int) About {
	return About{Rank: rank, World: 3, Attempt: attempt, PID: 100 + rank, Host: "node", Plugin: "tcp", Started: noon}
}

// Rank 1 hangs before it calls #13, rank 2 ran elsewhere, and an earlier attempt
// and a broken file are in the directory as well.
func TestReport(t *testing.T) {
	old := time.Local
	time.Local = time.UTC
	defer func() { time.Local = old }()
	dir := t.TempDir()
	dropped, failed := call(9, sdk.OpAllReduce, time.Microsecond, 0), call(10, sdk.OpBarrier, time.Microsecond, time.Second)
	dropped.Generation, failed.Status = 1, shm.Failed
	record(t, dir, about(0, 0), call(1, sdk.OpBarrier, 0, 0))
	record(t, dir, about(0, 1), dropped, failed, call(11, sdk.OpBroadcast, 2*time.Microsecond, 30*time.Microsecond),
		call(12, sdk.OpAllReduce, 3*time.Microsecond, 40*time.Microsecond), call(13, sdk.OpAllReduce, 5*time.Microsecond, 0), call(14, sdk.OpAllReduce, 0, 0))
	record(t, dir, about(1, 1), call(12, sdk.OpAllReduce, 3*time.Microsecond, 50*time.Microsecond))
	if err := os.WriteFile(filepath.Join(dir, "rank-7.0.flight"), []byte("torn"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Notes {
		r.Notes[i] = filepath.Base(r.Notes[i])
	}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"report.txt":  func(b *bytes.Buffer) error { return r.Text(b, 5) },
		"report.json": func(b *bytes.Buffer) error { return r.JSON(b) },
	} {
		var got bytes.Buffer
		if err := write(&got); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got.String()); d != "" {
			t.Errorf("%s\n%s", name, d)
		}
	}
}

func TestNoRecord(t *testing.T) {
	if _, err := Read(t.TempDir()); !errors.Is(err, ErrNone) {
		t.Errorf("got %v", err)
	}
}

// The rank that comes last to most steps is named, if the others wait long for it.
func TestSlowestRank(t *testing.T) {
	for name, c := range map[string]struct {
		lag   time.Duration // of rank 1 in steps of a millisecond
		every int           // steps in which it lags
		want  string
	}{
		"always":       {500 * time.Microsecond, 1, "rank 1 is the slowest: in 40 of the last 40 steps it was the last to finish its gradients, and the others waited up to 0.5 ms for it (median)"},
		"by little":    {5 * time.Microsecond, 1, ""},
		"now and then": {500 * time.Microsecond, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for rank := range 2 {
				var steps []shm.Flight
				for seq := uint64(1); seq <= 40; seq++ {
					wait := 10 * time.Microsecond
					if late := int(seq)%c.every == 0; late == (rank == 0) {
						wait += c.lag
					}
					f := call(seq, sdk.OpAllReduce, time.Microsecond, wait)
					f.DType, f.Bucket = uint8(tensor.F64), -1
					steps = append(steps, f)
				}
				about := about(rank, 0)
				about.World = 2
				record(t, dir, about, steps...)
			}
			r, err := Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if err := r.Text(&text, 1); err != nil {
				t.Fatal(err)
			}
			got := ""
			if r.Slowest != nil {
				got = r.Slowest.String()
			}
			if got != c.want || !bytes.Contains(text.Bytes(), []byte(c.want)) {
				t.Errorf("got %q", got)
			}
		})
	}
}
