package checkpoint

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/afero"
	"github.com/trainctl/trainctl/core/train/checkpoint/faultfs"
)

// diverged is a snapshot whose first weight is not finite.
func diverged(step int, v float32) *Snapshot {
	s := snapshot(step)
	s.Model[0].F32()[1] = v
	return s
}

// saveAll saves the steps, the negative ones diverged, each by a process of its own.
func saveAll(t *testing.T, fs FS, cfg Config, all ...int) {
	t.Helper()
	for i, step := range all {
		s := mustOpen(t, fs, cfg)
		snap := snapshot(max(step, -step))
		if step < 0 {
			snap = diverged(-step, []float32{float32(math.NaN()), float32(math.Inf(-1))}[i%2])
		}
		if _, err := s.Save(context.Background(), snap); err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
	}
}

// A checkpoint that is not finite never replaces one that is.
func TestRetentionKeepsTheFinite(t *testing.T) {
	for _, async := range []bool{false, true} {
		for _, c := range []struct {
			keep   int
			best   string
			save   []int
			want   string
			latest string
			loaded int
		}{
			{2, "", []int{1, 2, 3, -4, -5, -6}, "[6 3 2]", "step-3", 3},
			{1, "", []int{1, -2, 3, -4}, "[4 3]", "step-3", 3},
			{1, "", []int{1, -2, 3}, "[3]", "step-3", 3},
			{0, "", []int{1, -2, 3, -4}, "[4 3 2 1]", "step-3", 3},
			{1, "eval.accuracy", []int{1, 2, -3, -7}, "[7 2]", "step-2", 2}, // 3 and 7 would be the best
			{1, "train.loss", []int{1, 5, -9}, "[9 5]", "step-5", 5},
		} {
			fs := faultfs.New()
			saveAll(t, fs, config(c.keep, c.best, async), c.save...)
			if got := steps(t, fs); got != c.want {
				t.Errorf("keep %d of %v: %s, want %s", c.keep, c.save, got, c.want)
			}
			if got, err := afero.ReadFile(fs, filepath.Join(dir, LatestFile)); err != nil || strings.TrimSpace(string(got)) != c.latest {
				t.Errorf("keep %d of %v: latest is %s, %v", c.keep, c.save, got, err)
			}
			mustLoad(t, fs, c.loaded)
		}
	}
}

func TestBestIsFinite(t *testing.T) {
	fs := faultfs.New()
	cfg := config(0, "eval.accuracy", false)
	saveAll(t, fs, cfg, 1, 2, -3)
	s := mustOpen(t, fs, cfg)
	defer mustClose(t, s)
	if b := s.Best(); b == nil || b.Step != 2 {
		t.Errorf("the best is %+v", b)
	}
}

// A directory without anything finite is unusable, and says why; a checkpoint
// that is given by its path is loaded with a note.
func TestNothingFinite(t *testing.T) {
	fs := faultfs.New()
	saveAll(t, fs, config(0, "", false), -1, -2)
	_, _, err := Load(context.Background(), fs, dir)
	var not *NonFiniteError
	if !errors.Is(err, ErrUnusable) || !errors.As(err, &not) || not.Tensor != "layer1.0.weight" {
		t.Errorf("%v", err)
	}
	if AnyGood(fs, dir) {
		t.Error("something counts as good")
	}
	if _, r, err := Load(context.Background(), fs, filepath.Join(dir, "step-2")); err != nil || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "not finite: the first is layer1.0.weight") {
		t.Errorf("%+v, %v", r, err)
	}
	saveAll(t, fs, config(0, "", false), 3)
	if !AnyGood(fs, dir) {
		t.Error("nothing counts as good")
	}
}

// A finite checkpoint is not replaced by one of its step that is not.
func TestFiniteIsSpared(t *testing.T) {
	fs := faultfs.New()
	s := mustOpen(t, fs, config(2, "", false))
	mustSave(t, s, 1)
	if _, err := s.Save(context.Background(), diverged(1, float32(math.NaN()))); !errors.As(err, new(*NonFiniteError)) {
		t.Errorf("%v", err)
	}
	mustClose(t, s)
	mustLoad(t, fs, 1)
}
