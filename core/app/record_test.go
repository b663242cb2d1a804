package app

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/fx"

	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/checkpoint"
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

// Plugins are recorded a little at a time, which ends when somebody waits for them.
func TestPluginsAreRecordedInBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parts := 0
		p := newPluginRecord(func(pause func()) []event.PluginStarted {
			for range 100 {
				pause()
				parts++
			}
			return []event.PluginStarted{{Name: "tcp"}}
		})
		p.inBackground()
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		if parts == 0 || parts > 20 {
			t.Errorf("%d parts in 50 ms", parts)
		}
		start := time.Now()
		if all := p.wait(); len(all) != 1 || parts != 100 || time.Since(start) > 0 {
			t.Errorf("%v after %d parts and %v", all, parts, time.Since(start))
		}
		if all := p.wait(); len(all) != 1 || parts != 100 {
			t.Errorf("%v after %d parts", all, parts)
		}
	})
}

// A resumed run says which run it continues, and has that run's curve.
func TestResumedRunNamesTheEarlierOne(t *testing.T) {
	o := options(t)
	single := fx.Replace(rank.Single())
	if err := Worker(t.Context(), o, single); err != nil {
		t.Fatal(err)
	}
	earlier := filepath.Join(o.Config.Run.Dir, "wired", "1")
	if s := summary(t, o); s.Continues != "" {
		t.Errorf("a fresh run continues %s", s.Continues)
	}
	o.Resume = "auto"
	o.Config.Train.Epochs++
	if err := Worker(t.Context(), o, single); err != nil {
		t.Fatal(err)
	}
	if s := summary(t, o); s.Continues != earlier {
		t.Errorf("it continues %q, not %s", s.Continues, earlier)
	}
	events, err := os.ReadFile(filepath.Join(o.Config.Run.Dir, "wired", "2", "events.jsonl"))
	if err != nil || !bytes.Contains(events, []byte(`"continues":"`+earlier+`"`)) {
		t.Errorf("%v, %.300s", err, events)
	}
	curves, err := os.ReadDir(filepath.Join(o.Config.Run.Dir, "wired", "2", "tensorboard"))
	if err != nil || len(curves) != 2 {
		t.Errorf("%v, %v", err, curves)
	}
}
