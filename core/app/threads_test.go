package app

import (
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/base/cgroup"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// A rank that another launcher starts takes its share of a host, or what the
// configuration says.
func TestThreadsOfARank(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	three := launch.Default()
	three.ThreadsPerRank = launch.N(3)
	for _, c := range []struct {
		cfg    launch.Config
		source string
		local  int
		want   int
	}{
		{launch.Default(), "torchrun", 1 << 20, 1},
		{launch.Default(), "torchrun", 1, cgroup.Cores()},
		{launch.Default(), "slurm", 1 << 20, cgroup.Cores()}, // srun has given each its own
		{three, "slurm", 4, 3},
		{three, "torchrun", 4, 3},
	} {
		if got := threads(c.cfg, rank.World{Source: c.source, LocalSize: c.local}, none); got != c.want {
			t.Errorf("%s, %d local ranks: %d threads, want %d", c.source, c.local, got, c.want)
		}
	}
}

// Built-in plugins that are replaced, or that faults are injected into, keep their own processes.
func TestPluginsInTheRank(t *testing.T) {
	many := rank.World{LocalSize: 1 << 20}
	cfg := &config.Config{File: config.File{Launch: launch.Default()}}
	if got := inRank(cfg, many, nil); len(got) != 3 {
		t.Errorf("%v", got)
	}
	if got := inRank(cfg, rank.World{LocalSize: 1}, nil); got != nil {
		t.Errorf("one rank: %v", got)
	}
	none := []host.Builtin{{Kind: sdk.KindPrecision, Name: cfg.Precision.Plugin, Constant: true}}
	if got := inRank(cfg, rank.World{LocalSize: 1}, none); !slices.Equal(got, []sdk.Kind{sdk.KindPrecision}) {
		t.Errorf("one rank, with a plugin that has nothing to do: %v", got)
	}
	cfg.Launch.Isolation = "isolated"
	if got := inRank(cfg, many, none); got != nil {
		t.Errorf("isolated: %v", got)
	}
	cfg.Launch.Isolation = "auto"
	cfg.Dataset.Restarts = 1
	cfg.Launch.Elastic = true // changes of the ranks replace backends
	if got := inRank(cfg, many, nil); !slices.Equal(got, []sdk.Kind{sdk.KindPrecision}) {
		t.Errorf("%v", got)
	}
	cfg.Faults.At = []string{"step 3: kill plugin backend of rank 0"}
	if got := inRank(cfg, many, nil); got != nil {
		t.Errorf("with faults: %v", got)
	}
}
