package outline

import (
	"fmt"
	"slices"
	"time"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/metric"
)

// Settings are the tables that the loop reads. They are equal on all ranks.
type Settings struct {
	Run        RunConfig
	Train      TrainConfig
	Sampler    data.Config
	Model      nn.Config
	Optimizer  optim.Config
	Schedule   optim.ScheduleConfig
	DDP        ddp.Config
	Checkpoint checkpoint.Config
	Eval       metric.Config

	Dataset        string      // plugin's name, for checkpoints and messages
	DatasetOptions sdk.Options // checked
	Backend        string
	BackendOptions sdk.Options
	BackendTimeout time.Duration
	BackendInit    time.Duration // limit for forming a new group
	// BackendRestarts is how often a group that broke is replaced; 0: never.
	BackendRestarts int
	PrecisionOpts   sdk.Options

	Plans Plans

	Job
	Resolved
}

// Job is what the loop needs of the tables that describe the job and its reports.
type Job struct {
	Timeline bool // record what this rank does when
	MaxWorld int  // ranks that an elastic job may have; 0: their number is fixed
	Shares   Shares
}

// Shares are those that launch.shares gives the ranks in the samples of a step. The zero value
// gives all the same.
type Shares struct {
	Auto    bool  // ranks measure how fast they are
	Weights []int // by rank, 1 or more; nil: they have equal shares, or with Auto begin with these
}

// On reports whether ranks may have unequal shares.
func (s Shares) On() bool { return s.Auto || len(s.Weights) > 0 }

// divide divides a step over the ranks of a world, in the shares that launch.shares gives them.
// Only per_rank_batch limits their micro-batches.
func (c Settings) divide(world int) (data.Division, error) {
	d, err := c.Train.Divide(world)
	weights := c.Shares.Weights
	if err != nil || len(weights) == 0 || world == 1 && len(weights) == 1 {
		return d, err
	}
	if len(weights) != world {
		return d, usererr.Errorf("launch.shares", fmt.Sprintf(`give %d numbers, or "auto"`, world), "%d shares are given for %d ranks", len(weights), world)
	}
	d = d.Weighted(weights, c.Train.PerRankBatch)
	if r := slices.Index(d.Shares.Whole(), 0); r >= 0 {
		return d, usererr.Errorf("launch.shares", "use a larger batch, or shares that differ less", "rank %d gets none of the %d samples of a step", r, d.Step)
	}
	return d, nil
}

// Resolved is the configuration that settings come from.
type Resolved struct {
	Text   string   // as TOML, kept in checkpoints
	Common []string // what all ranks share, as "key = value": they compare it
}

// Plans are the plan options that suit a device.
type Plans struct {
	Recompute bool                // backward recomputes cheap activations
	BF16From  int                 // bytes of activations from which they lower to bfloat16; see [plan.Options]
	Converts  func(graph.Op) bool // operations that convert half types on the way; see [plan.Options]

	NormFunctions bool // batch norms compute the functions behind them; see [plan.Options]
}

// Compile makes the plan of one batch shape. What the plan refuses is for the
// user to change: a batch too small for the model, an operation that the precision bans.
func (c Settings) Compile(g *graph.Graph, policy *sdk.Policy, rows int, training bool, world int) (*plan.Plan, error) {
	d, err := tensor.ParseDType(c.Run.DType)
	if err != nil {
		return nil, err
	}
	p, err := plan.Compile(g, plan.Options{
		Batch: rows, Train: training, DType: d, Policy: policy, Fuse: c.Run.Fuse, Recompute: c.Plans.Recompute && c.Run.Fuse, RecomputeBlocks: c.Train.Recompute == "blocks",
		SyncBatchNorm: c.DDP.SyncBatchNorm && max(world, c.MaxWorld) > 1, BF16From: c.Plans.BF16From, Converts: c.Plans.Converts, NormFunctions: c.Plans.NormFunctions, Logits: !training && c.Eval.NeedsOutputs(),
	})
	if err != nil {
		return nil, usererr.List{{Detail: fmt.Sprintf("planning batches of %d: %v", rows, err)}}.Err()
	}
	return p, nil
}
