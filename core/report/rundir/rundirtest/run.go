package rundirtest

import (
	"bytes"
	"errors"
	"image"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/timeline"
)

// Noon is when runs begin.
var Noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// Run is a run directory that a test writes.
type Run struct {
	FS  afero.Fs
	Dir event.RunDir
	At  time.Time // of the last event

	t testing.TB
}

// New creates the directory of the next run of a name under base.
func New(t testing.TB, fsys afero.Fs, base, name string) *Run {
	t.Helper()
	dir, err := event.CreateRunDir(fsys, base, name)
	if err != nil {
		t.Fatal(err)
	}
	return &Run{fsys, dir, Noon, t}
}

// Append adds text to the events.
func (r *Run) Append(text string) {
	r.t.Helper()
	r.add(r.Dir.Events(), text)
}

// Log adds text to the log of a rank.
func (r *Run) Log(rank int, text string) {
	r.t.Helper()
	r.add(r.Dir.RankLog(rank), text)
}

func (r *Run) add(path, text string) {
	r.t.Helper()
	f, err := r.FS.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		r.t.Fatal(err)
	}
}

// Tell appends events of rank 0, a second apart.
func (r *Run) Tell(events ...event.Event) {
	r.t.Helper()
	var b []byte
	for _, e := range events {
		r.At = r.At.Add(time.Second)
		b = event.Append(b, event.Record{Time: r.At, Event: e})
	}
	r.Append(string(b))
}

// Loss is the loss of a step that Steps writes.
func Loss(step int) float64 { return 2 / math.Sqrt(float64(step)) * (1 + 0.3*math.Sin(float64(step))) }

// Steps appends steps of a millisecond each.
func (r *Run) Steps(from, to int) {
	r.t.Helper()
	var b []byte
	for step := from; step <= to; step++ {
		r.At = r.At.Add(time.Millisecond)
		b = event.Append(b, event.Record{Time: r.At, Event: &event.StepDone{
			Step: step, LossMean: Loss(step), Accuracy: 0.5, LR: 0.1, StepMS: 1, DataMS: 0.1, CommMS: 0.3, Samples: 100, SamplesPerSec: 1e5, GradNorm: 1 + Loss(step),
		}})
	}
	r.Append(string(b))
}

// Write writes one of the files of the directory.
func (r *Run) Write(path string, content []byte) {
	r.t.Helper()
	if err := afero.WriteFile(r.FS, path, content, 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// Summary ends the run.
func (r *Run) Summary(s event.Summary) {
	r.t.Helper()
	if err := event.WriteSummary(r.FS, r.Dir.Summary(), s); err != nil {
		r.t.Fatal(err)
	}
}

// Picture is a PNG of noise, so that its size is that of its pixels.
func Picture(t testing.TB, side int) []byte {
	t.Helper()
	m, noise := image.NewGray(image.Rect(0, 0, side, side)), rand.New(rand.NewPCG(1, 2))
	for i := range m.Pix {
		m.Pix[i] = byte(noise.Uint32())
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Timeline writes the trace of ranks of the given number of steps.
func (r *Run) Timeline(ranks, steps int, notes ...string) [][]timeline.Slice {
	r.t.Helper()
	all := make([][]timeline.Slice, ranks)
	for rank := range all {
		for step := 1; step <= steps; step++ {
			at := time.Duration(step) * time.Millisecond
			all[rank] = append(all[rank],
				timeline.Slice{Stream: timeline.Compute, Name: "forward", Index: -1, Step: step, Start: at, Length: 500 * time.Microsecond},
				timeline.Slice{Stream: timeline.Communication, Name: "bucket", Index: 2, Bytes: 64, Step: step, Start: at + 100*time.Microsecond, Length: 200 * time.Microsecond})
		}
	}
	f, err := r.FS.Create(r.Dir.Timeline())
	if err != nil {
		r.t.Fatal(err)
	}
	if err := errors.Join(timeline.Write(f, all, notes...), f.Close()); err != nil {
		r.t.Fatal(err)
	}
	return all
}
