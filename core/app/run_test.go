package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/job/etcd"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/job/secret"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// The launcher waits as long as saves take, unless the configuration sets launch.grace.
func TestGraceFollowsSaves(t *testing.T) {
	c := &config.Config{}
	c.Launch = launch.Default()
	j := &job{bus: event.NewBus(event.Launcher), Options: Options{Config: c}}
	saving := j.saving()
	for _, ms := range []float64{100, 4000, 300} {
		j.onEvent(0, event.Append(nil, event.Record{Event: &event.CheckpointSaved{TookMS: ms}}))
	}
	if got := saving(); got != 8*time.Second {
		t.Errorf("%v after a save of 4 s", got)
	}
	if least := j.Config.Launch.Grace.Std(); least != 5*time.Second {
		t.Errorf("at least %v", least)
	}
	if err := j.Config.Launch.Grace.UnmarshalText([]byte("1s")); err != nil {
		t.Fatal(err)
	}
	if j.saving() != nil {
		t.Error("a grace that is given is changed")
	}
}

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

// warnings keeps the warnings that it gets.
type warnings []*event.Warning

func (w *warnings) Emit(r event.Record) {
	if e, is := r.Event.(*event.Warning); is {
		*w = append(*w, e)
	}
}

func (w *warnings) Close() error { return nil }

// A password for etcd that crosses the network without TLS is reported.
func TestExposedPasswordIsReported(t *testing.T) {
	for want, c := range map[int][]*etcd.Config{
		0: {nil, {User: "ours"}, {User: "ours", Password: "pw", CAFile: "ca.pem"}, {User: "ours", Password: "pw", Endpoints: []string{"https://etcd0:2379"}}},
		1: {{User: "ours", Password: "pw", Endpoints: []string{"etcd0:2379"}}, {User: "ours", Password: "pw", Endpoints: []string{"http://etcd0:2379"}}},
	} {
		for _, c := range c {
			var told warnings
			warnPassword(event.NewBus(0, &told), c)
			if len(told) != want || want > 0 && (!strings.Contains(told[0].Message, `"ours"`) || !strings.Contains(told[0].Message, "fix: write https://") || strings.Contains(told[0].Message, "pw")) {
				t.Errorf("%+v: told %v", c, told)
			}
		}
	}
}

// What the launcher warns of is shown, and on the node that began the job it is one of the run's events.
func TestWarningsOfTheLauncher(t *testing.T) {
	var told warnings
	j := &job{bus: event.NewBus(event.Launcher, &told), fs: checkpoint.OsFS()}
	j.warn("etcd", "elsewhere")
	path := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.WriteFile(path, []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	j.events.Store(&path)
	j.warn("etcd", "away")
	text, err := os.ReadFile(path)
	_, line, _ := strings.Cut(string(text), "{}\n")
	r, err2 := event.Decode([]byte(line))
	if w, ok := r.Event.(*event.Warning); !ok || w.Source != "etcd" || w.Message != "away" || len(told) != 2 {
		t.Errorf("told %v, wrote %q: %v", told, text, errors.Join(err, err2))
	}
}

// A secret given in the environment is reported with the place where it can still be read.
func TestExposedSecretIsReported(t *testing.T) {
	var told warnings
	bus := event.NewBus(0, &told)
	warnExposed(bus, secret.Given{})
	warnExposed(bus, secret.Given{Source: secret.Env, Exposed: errors.New("open /proc/self/mem: permission denied")})
	if err := bus.Close(); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 {
		t.Fatalf("told %d times", len(told))
	}
	for _, want := range []string{secret.Env, "/proc", "permission denied", "fix: use launch.secret_file"} {
		if !strings.Contains(told[0].Message, want) {
			t.Errorf("%q is not in %q", want, told[0].Message)
		}
	}
}
