package app

import (
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/report/event"
)

// The launcher is told how long saves take, unless the configuration says how
// long it waits.
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
