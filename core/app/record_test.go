package app

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/fx"

	"github.com/trainctl/trainctl/core/checkpoint"
	"github.com/trainctl/trainctl/core/event"
	"github.com/trainctl/trainctl/core/rank"
)

// Summary, events and manifests say by what a run was trained: each plugin with
// its version, executable and sum.
func TestPluginsAreRecorded(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(program)
	o := options(t)
	if err := Worker(t.Context(), o, fx.Replace(rank.Single())); err != nil {
		t.Fatal(err)
	}
	s := summary(t, o)
	if len(s.Plugins) != 3 {
		t.Fatalf("%+v", s.Plugins)
	}
	for i, kind := range []string{"backend", "precision", "dataset"} {
		p := s.Plugins[i]
		if p.Type != kind || p.Name == "" || p.Version == "" || p.Path != exe || p.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%+v", p)
		}
	}
	dir := filepath.Join(o.Config.Run.Dir, "wired", "1")
	saved, err := checkpoint.Newest(t.Context(), checkpoint.OsFS(), filepath.Join(dir, "checkpoints"))
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range saved.Manifest.Plugins {
		if event.PluginStarted(p) != s.Plugins[i] {
			t.Errorf("manifest %+v, summary %+v", p, s.Plugins[i])
		}
	}
	if len(saved.Manifest.Plugins) != 3 {
		t.Errorf("manifest %+v", saved.Manifest.Plugins)
	}
	events, err := os.ReadFile(filepath.Join(dir, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for line := range bytes.Lines(events) {
		if r, err := event.Decode(line); err == nil {
			if p, ok := r.Event.(*event.PluginStarted); ok {
				told++
				if *p != s.Plugins[told-1] {
					t.Errorf("event %+v", p)
				}
			}
		}
	}
	if told != 3 {
		t.Errorf("%d events", told)
	}
}
