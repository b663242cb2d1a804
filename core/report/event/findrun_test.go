package event

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"
)

func TestFindRun(t *testing.T) {
	fsys := afero.NewMemMapFs()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, name := range []string{"b", "a", "a"} {
		d, err := CreateRunDir(fsys, "runs", name)
		if err != nil {
			t.Fatal(err)
		}
		if err := fsys.Chtimes(d.Logs(), start, start.Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if err := fsys.MkdirAll("runs/c", 0o755); err != nil { // not a run
		t.Fatal(err)
	}
	for run, want := range map[string]string{
		"a": "runs/a/2", "b": "runs/b/1", "a/1": "runs/a/1", "a/latest": "runs/a/2", "runs/a": "runs/a/2", "runs/a/1": "runs/a/1",
		"runs/a/latest": "runs/a/2", "latest": "runs/a/2",
	} {
		d, err := FindRun(fsys, "runs", run)
		if err != nil || d.Path != want {
			t.Errorf("%s is %q, want %q (%v)", run, d.Path, want, err)
		}
	}
	for _, run := range []string{"c", "d", "a/3", "runs", ""} {
		_, err := FindRun(fsys, "runs", run)
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "runs in runs: a, b") {
			t.Errorf("%q: %v", run, err)
		}
	}
	if _, err := FindRun(fsys, "elsewhere", Latest); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "--run-dir") {
		t.Errorf("%v", err)
	}
}

// A word that is a folder and a run's name is refused, with both paths.
func TestCheckpointsOfAnAmbiguousName(t *testing.T) {
	fsys := afero.NewMemMapFs()
	for _, dir := range []string{"runs/gpt/latest/logs", "gpt", "other"} {
		if err := fsys.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for arg, want := range map[string]string{"./gpt": "./gpt", "runs/gpt": "runs/gpt/latest", "other": "other", "gpt": ""} {
		got, err := FindCheckpoints(fsys, "runs", arg)
		if want == "" {
			if !errors.As(err, new(*AmbiguousError)) || !strings.Contains(err.Error(), "./gpt or runs/gpt") {
				t.Errorf("%s: %v", arg, err)
			}
		} else if err != nil || got != want {
			t.Errorf("%s: %s, %v", arg, got, err)
		}
	}
}
