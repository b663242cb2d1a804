package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/durable"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/report/event"
)

// Status is how far a trial is.
type Status string

// The statuses of trials. Those that are not over are started, or resumed, by the next process.
const (
	Pending     Status = "pending"
	Running     Status = "running"
	Stopping    Status = "stopping" // by the median rule; its process may still run
	Interrupted Status = "interrupted"

	Done     Status = "ok"
	Diverged Status = "diverged"
	Failed   Status = "failed"
	Stopped  Status = "stopped"
)

// Over reports whether the trial is not started again.
func (s Status) Over() bool { return slices.Contains([]Status{Done, Diverged, Failed, Stopped}, s) }

// Setting is a key with its value in a trial.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"` // as TOML

	key, value string // paths in the sweep's file
}

// Trial is a training with some settings. Value is its best evaluation, or nil; of metrics that are not
// evaluated, the value at its end.
type Trial struct {
	Number      int           `json:"trial"`
	Status      Status        `json:"status"`
	Value       *event.Number `json:"value,omitempty"`
	Step        int           `json:"step,omitempty"` // of the value
	Settings    []Setting     `json:"settings"`
	Evaluations []Point       `json:"evaluations,omitempty"`
	Reason      string        `json:"reason,omitempty"` // why it failed or was stopped
	Run         string        `json:"run,omitempty"`    // its newest run directory
	Seconds     float64       `json:"seconds,omitempty"`

	PID     int       `json:"pid,omitempty"` // while it runs
	Started time.Time `json:"started,omitzero"`
	Sum     string    `json:"config_sha256"` // of its resolved configuration

	config *config.Config
}

func newTrial(n int, settings []Setting) *Trial {
	return &Trial{Number: n, Status: Pending, Settings: settings}
}

// Name is the name of the trial's runs.
func (t *Trial) Name() string { return fmt.Sprintf("trial-%03d", t.Number) }

// String describes the trial in messages.
func (t *Trial) String() string { return fmt.Sprintf("trial %d (%s)", t.Number, describe(t.Settings)) }

func describe(settings []Setting) string {
	parts := make([]string, len(settings))
	for i, s := range settings {
		parts[i] = s.Key + "=" + s.Value
	}
	return strings.Join(parts, ", ")
}

// sets are the settings as arguments of --set.
func (t *Trial) sets() []string {
	out := make([]string, len(t.Settings))
	for i, s := range t.Settings {
		out[i] = s.Key + "=" + s.Value
	}
	return out
}

// use records the trial's configuration.
func (t *Trial) use(c *config.Config) {
	sum := sha256.Sum256(c.Resolved())
	t.config, t.Sum = c, hex.EncodeToString(sum[:])
}

// state is sweep.json.
type state struct {
	Schema int      `json:"schema"`
	Metric string   `json:"metric"`
	Goal   string   `json:"goal"`
	Trials []*Trial `json:"trials"`
}

// schema is the version of sweep.json.
const schema = 1

func stateFile(dir string) string { return filepath.Join(dir, "sweep.json") }

func (s *state) write(fsys afero.Fs, dir string) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = durable.Replace(fsys, stateFile(dir), append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("state of the sweep: %w", err)
	}
	return nil
}

// restore takes over what an earlier process has written about the same trials. A random sweep may
// have become longer.
func (s *state) restore(fsys afero.Fs, dir string) error {
	b, err := afero.ReadFile(fsys, stateFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var old state
	if err == nil {
		err = json.Unmarshal(b, &old)
	}
	if err != nil {
		return fmt.Errorf("state of the sweep %s: %w; fix: remove the folder to start over, or choose another with --dir", stateFile(dir), err)
	}
	if differs := s.differs(&old); differs != "" {
		return usererr.Errorf("", "choose another folder with --dir, or remove this one to start over", "%s has another sweep: %s", dir, differs)
	}
	for i, t := range old.Trials {
		t.config = s.Trials[i].config
		s.Trials[i] = t
	}
	return nil
}

// differs says how an earlier sweep is another one; "": it is the same.
func (s *state) differs(old *state) string {
	switch {
	case old.Schema != schema:
		return fmt.Sprintf("its format is %d, and this version writes %d", old.Schema, schema)
	case old.Metric != s.Metric || old.Goal != s.Goal:
		return fmt.Sprintf("its goal is the %s of %s", old.Goal, old.Metric)
	case len(old.Trials) > len(s.Trials):
		return fmt.Sprintf("it has %d trials, and the file now describes %d", len(old.Trials), len(s.Trials))
	}
	for i, t := range old.Trials {
		switch now := s.Trials[i]; {
		case describe(t.Settings) != describe(now.Settings):
			return fmt.Sprintf("its trial %d is %s, and the file now describes %s", t.Number, describe(t.Settings), describe(now.Settings))
		case t.Sum != now.Sum:
			return fmt.Sprintf("the configuration of %v has changed since the sweep began", t)
		}
	}
	return ""
}
