package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/afero"
	"github.com/trainctl/trainctl/core/train/checkpoint/faultfs"
)

func TestRoundTrip(t *testing.T) {
	for _, async := range []bool{false, true} {
		fs := faultfs.New()
		s := mustOpen(t, fs, Config{Every: "1 epoch", Prefix: "module.", Async: async})
		snap := snapshot(5)
		snap.Scaler["max_scale"] = math.Inf(1)
		path, err := s.Save(context.Background(), snap)
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(dir, "step-5"); path != want {
			t.Errorf("path %s, want %s", path, want)
		}
		mustClose(t, s)
		got, _, err := Load(context.Background(), fs, dir)
		if err != nil {
			t.Fatal(err)
		}
		if d := same(got, snap); d != "" {
			t.Error(d)
		}
		info, err := Inspect(fs, path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Model[0].Name != "module.layer1.0.weight" {
			t.Errorf("prefix: %v", info.Model[0])
		}
	}
}

// What Save was given may change at once; the write goes on from a copy.
func TestAsyncSaveCopies(t *testing.T) {
	fs := faultfs.New()
	gate := make(chan struct{})
	s := mustOpen(t, fs, config(3, "", true))
	fs.Inject(func(op faultfs.Op) error {
		if op.Name == "mkdir" {
			<-gate
		}
		return nil
	})
	snap := snapshot(1)
	if _, err := s.Save(context.Background(), snap); err != nil {
		t.Fatal(err)
	}
	for _, x := range snap.Model {
		clear(x.Data)
	}
	snap.Metrics["train.loss"] = 0
	close(gate)
	mustClose(t, s)
	mustLoad(t, fs, 1)
}

func TestAsyncErrorSurfaces(t *testing.T) {
	fs := faultfs.New()
	s := mustOpen(t, fs, config(3, "", true))
	fs.Inject(func(op faultfs.Op) error {
		if op.Name == "sync" {
			return syscall.EIO
		}
		return nil
	})
	if _, err := s.Save(context.Background(), snapshot(1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(context.Background()); !errors.Is(err, syscall.EIO) {
		t.Fatalf("got %v", err)
	}
	if _, err := s.Save(context.Background(), snapshot(2)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "step 2") {
		t.Fatalf("got %v", err)
	}
}

func TestRetention(t *testing.T) {
	cases := []struct {
		name string
		cfg  Config
		save []int
		want string
	}{
		{"all", config(0, "", false), []int{1, 2, 3, 4}, "[4 3 2 1]"},
		{"two", config(2, "", false), []int{1, 2, 3, 4}, "[4 3]"},
		{"one", config(1, "", false), []int{1, 2, 3, 4}, "[4]"},
		{"best accuracy, the first of equals", config(1, "eval.accuracy", false), []int{1, 3, 5, 7, 8}, "[8 3]"},
		{"best loss", config(1, "train.loss", false), []int{1, 9, 5}, "[5 9]"},
		{"by order of saving", config(2, "", false), []int{10, 20, 5}, "[5 20]"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			fs := faultfs.New()
			for _, step := range c.save { // every time a new process, which has to learn what is best
				s := mustOpen(t, fs, c.cfg)
				mustSave(t, s, step)
				mustClose(t, s)
			}
			if got := steps(t, fs); got != c.want {
				t.Errorf("kept %s, want %s", got, c.want)
			}
			mustLoad(t, fs, c.save[len(c.save)-1])
			noLitter(t, fs)
		})
	}
}

// The last file that can be loaded stays, whatever keep says, when the new one did not reach the disk whole.
func TestRetentionReadsBackFirst(t *testing.T) {
	fs := faultfs.New()
	s := mustOpen(t, fs, config(1, "", false))
	mustSave(t, s, 1)
	tmp := filepath.Join(dir, "step-2.tmp-x")
	if _, _, err := s.writeDir(context.Background(), tmp, snapshot(2)); err != nil {
		t.Fatal(err)
	}
	flip(t, fs, filepath.Join(tmp, ModelFile), 200)
	if err := s.rename(tmp, filepath.Join(dir, "step-2")); err != nil {
		t.Fatal(err)
	}
	if err := s.retain(context.Background(), Manifest{Progress: Progress{Step: 2}}); !errors.Is(err, ErrChecksum) {
		t.Fatalf("got %v", err)
	}
	mustClose(t, s)
	mustLoad(t, fs, 1)
}

func flip(t testing.TB, fs afero.Fs, path string, at int) {
	t.Helper()
	b, err := afero.ReadFile(fs, path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 0x10
	if err := afero.WriteFile(fs, path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func twoSaved(t *testing.T) *faultfs.FS {
	fs := faultfs.New()
	s := mustOpen(t, fs, config(3, "", false))
	mustSave(t, s, 1)
	mustSave(t, s, 2)
	mustClose(t, s)
	return fs
}

// A change of any byte of a checkpoint is detected.
func TestBitFlips(t *testing.T) {
	fs := twoSaved(t)
	for _, file := range []string{ModelFile, OptimizerFile, ManifestFile} {
		path := filepath.Join(dir, "step-2", file)
		whole, err := afero.ReadFile(fs, path)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(whole); at += 3 {
			flip(t, fs, path, at)
			mustLoad(t, fs, 1)
			flip(t, fs, path, at)
		}
		for n := 0; n < len(whole); n += 37 {
			if err := afero.WriteFile(fs, path, whole[:n], 0o644); err != nil {
				t.Fatal(err)
			}
			mustLoad(t, fs, 1)
		}
		if err := afero.WriteFile(fs, path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mustLoad(t, fs, 2)
}

func TestLoadFallsBackWithNote(t *testing.T) {
	fs := twoSaved(t)
	flip(t, fs, filepath.Join(dir, "step-2", OptimizerFile), 100)
	_, report, err := Load(context.Background(), fs, "/runs/mnist/1")
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Skipped) != 1 || !strings.HasSuffix(report.Skipped[0].Path, "step-2") || !errors.Is(report.Skipped[0].Reason, ErrChecksum) {
		t.Fatalf("report %v", report)
	}
	if _, _, err := Load(context.Background(), fs, filepath.Join(dir, "step-2")); !errors.Is(err, ErrUnusable) || !errors.Is(err, ErrChecksum) || !strings.Contains(err.Error(), "; fix: restore its files") {
		t.Fatalf("a named broken checkpoint gives %v", err)
	}
	if err := afero.WriteFile(fs, filepath.Join(dir, "step-1", ManifestFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, _, err = Load(context.Background(), fs, dir)
	var u *UnusableError
	if !errors.As(err, &u) || len(u.Skipped) != 2 || !strings.Contains(err.Error(), "manifest.json is empty") || !strings.Contains(err.Error(), "\nfix: restore the files of one") {
		t.Fatalf("got %v", err)
	}
	if err := fs.Remove(filepath.Join(dir, "step-2", ModelFile)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(context.Background(), fs, filepath.Join(dir, "step-2")); err == nil || !strings.Contains(err.Error(), "; fix: restore its files") {
		t.Fatalf("a checkpoint that lacks a file gives %v", err)
	}
}

func TestLoadOtherPaths(t *testing.T) {
	fs := twoSaved(t)
	snap, report, err := Load(context.Background(), fs, filepath.Join(dir, "step-1", ModelFile))
	if err != nil || len(snap.Model) != 4 || snap.Optimizer != nil || len(report.Notes) != 1 {
		t.Fatalf("bare file: %v %v %v", snap, report, err)
	}
	if _, _, err := Load(context.Background(), fs, "/nowhere"); !errors.Is(err, ErrUnusable) {
		t.Fatalf("missing path: %v", err)
	}
	if err := fs.MkdirAll("/empty", 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(context.Background(), fs, "/empty"); !errors.Is(err, ErrNone) {
		t.Fatalf("empty directory: %v", err)
	}
	latest, err := afero.ReadFile(fs, filepath.Join(dir, LatestFile))
	if err != nil || string(latest) != "step-2\n" {
		t.Fatalf("latest %q %v", latest, err)
	}
}

func TestOneWriter(t *testing.T) {
	fs, d := OsFS(), filepath.Join(t.TempDir(), "checkpoints")
	s, err := Open(fs, d, Default())
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(fs, d, Default())
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Fatalf("got %v", err)
	}
	next, err := TakeOver(fs, d, Default())
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, next)
	if _, err := s.Save(context.Background(), snapshot(4)); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s, err = Open(fs, d, Default())
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	snap, _, err := s.Load(context.Background(), Auto)
	if err != nil {
		t.Fatal(err)
	}
	if diff := same(snap, snapshot(4)); diff != "" {
		t.Fatal(diff)
	}
}

func TestOnSaved(t *testing.T) {
	fs := faultfs.New()
	s := mustOpen(t, fs, config(3, "eval.accuracy", true))
	var got []string
	s.OnSaved(func(x Saved) { got = append(got, fmt.Sprint(x.Step, " ", x.Bytes > 0, " ", x.Best)) })
	for _, step := range []int{1, 3, 4} {
		mustSave(t, s, step)
	}
	mustClose(t, s)
	if !slices.Equal(got, []string{"1 true true", "3 true true", "4 true false"}) {
		t.Fatal(got)
	}
}

func TestConfigProblems(t *testing.T) {
	if p := Default().Problems(); p != nil {
		t.Fatal(p)
	}
	bad := Config{Every: "sometimes", Keep: -1, KeepBest: "luck", Prefix: "m."}
	if p := bad.Problems(); len(p) != 4 {
		t.Fatal(p)
	}
	for s, want := range map[string]Interval{"1 epoch": {Epochs: 1}, "2 epochs": {Epochs: 2}, "500 steps": {Steps: 500}, "never": {}} {
		if got, err := ParseInterval(s); err != nil || got != want {
			t.Errorf("%q: %v %v", s, got, err)
		}
	}
}
