package app

import (
	"fmt"
	"os"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/fault"
)

// openFS is the file system of checkpoints. The disk is nil unless the configuration injects
// faults.
func openFS(cfg *config.Config) (checkpoint.FS, *fault.Disk) {
	if len(cfg.Faults.At) == 0 {
		return checkpoint.OsFS(), nil
	}
	d := fault.NewDisk(checkpoint.OsFS())
	return d, d
}

// injectFaults injects the configured faults into this rank. After a restart of the ranks there are
// none, so that the run can end.
func (r *runner) injectFaults(d *train.Deps) error {
	all, w := r.p.Config.Faults.Faults(), r.p.World
	if len(all) == 0 || w.RestartCount > 0 {
		return nil
	}
	for _, f := range all {
		if f.Rank >= w.Size || f.Node >= max(1, w.Nodes) {
			return usererr.Errorf("faults.at", fmt.Sprintf("ranks are 0 to %d, nodes 0 to %d", w.Size-1, max(1, w.Nodes)-1), "%q: there is no such rank or node", f.Text)
		}
	}
	pids := map[string]func() int{
		string(sdk.KindBackend): d.Backend.PID, string(sdk.KindDataset): d.Dataset.PID, string(sdk.KindPrecision): d.Precision.PID,
	}
	i := &fault.Injector{
		Rank: w.Rank, Node: max(0, w.NodeRank), Disk: r.p.Disk, Checkpoints: r.p.Dir.Checkpoints(), Log: os.Stderr,
		Plugin: func(kind string) int { return pids[kind]() },
	}
	i.Inject(all)
	d.BeforeStep = i.BeforeStep
	return nil
}
