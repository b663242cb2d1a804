package app

import (
	"testing"

	"github.com/trainctl/trainctl/core/base/cgroup"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/job/rank"
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
