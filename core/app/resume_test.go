package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/train"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// The new run becomes the latest of its name before its ranks read the
// checkpoint, so "latest" has to be followed before that.
func TestResumeMeansTheRunThatWasThere(t *testing.T) {
	base := t.TempDir()
	for _, dir := range []string{"job/1/logs", "job/1/checkpoints/step-3"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("1", filepath.Join(base, "job", "latest")); err != nil {
		t.Fatal(err)
	}
	want, err := filepath.EvalSymlinks(filepath.Join(base, "job", "1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, given := range []string{"job", "latest", "job/1", filepath.Join(base, "job"), filepath.Join(base, "job", "latest")} {
		c := &config.Config{}
		c.Run.Dir = base
		j := &job{Options: Options{Config: c, Request: train.Request{Resume: given}}, fs: checkpoint.OsFS()}
		got, err := j.findResume()
		if err != nil || got != want {
			t.Errorf("--resume %s: %q, %v; want %q", given, got, err, want)
		}
	}
}
