package train

import (
	"context"
	"time"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/recovery"
)

// Settings are the tables that the loop reads. They are equal on all ranks.
type Settings struct {
	Run        RunConfig
	Train      Config
	Sampler    data.Config
	Model      nn.Config
	Optimizer  optim.Config
	Schedule   optim.ScheduleConfig
	DDP        ddp.Config
	Checkpoint checkpoint.Config

	Dataset        string      // plugin's name, for checkpoints and messages
	DatasetOptions sdk.Options // checked
	Backend        string
	BackendOptions sdk.Options
	BackendTimeout time.Duration
	BackendInit    time.Duration // for a new group to come about
	// BackendRestarts is how often a group that broke is replaced; 0: never.
	BackendRestarts int
	PrecisionOpts   sdk.Options

	Timeline bool // record what this rank does when

	Text   string   // resolved configuration as TOML, kept in checkpoints
	Common []string // its settings that all ranks share, as "key = value": they compare them
}

// Gather exchanges opaque bytes between all ranks before collectives work:
// the result's element r came from rank r. The name is equal on all ranks.
type Gather func(ctx context.Context, name string, mine []byte) ([][]byte, error)

// Checkpoints configures where a run's checkpoints are, and from which one it starts.
type Checkpoints struct {
	// FS is where checkpoints are read, and Store where rank 0 writes them;
	// nil on the other ranks and when checkpoints are off.
	FS    checkpoint.FS
	Store *checkpoint.Store
	// Resume is a checkpoint, a directory of checkpoints, or "". With
	// ResumeAuto a directory without any is a fresh start.
	Resume     string
	ResumeAuto bool
	// SaveAsked counts the requests to save a checkpoint after the step under
	// way and to go on, of this rank; nil: nobody asks.
	SaveAsked func() int64
}

// Deps are the dependencies of a Trainer. The caller starts and closes them.
type Deps struct {
	Settings  Settings
	World     rank.World
	Secret    []byte
	Gather    Gather
	Backend   host.Collectives
	Dataset   host.Batches
	Precision host.Scaler
	Device    plan.Device
	GPU       ddp.GPU // that the device is; zero on a processor
	Events    *event.Bus

	Checkpoints
	EvalOnly bool // evaluate what Resume names; nothing is trained

	Build   string    // of the binary, for messages between ranks
	Started time.Time // of the launcher's process, for time to the first step
	// Plugins says which plugins these are; nil on other ranks than 0.
	Plugins func() []event.PluginStarted
	// PeakRSS measures this rank with its plugins; nil means unknown.
	PeakRSS func() int64
}

// Trainer is one rank's run. It must be used on one goroutine. Its parts know nothing
// of it.
type Trainer struct {
	Deps
	answers

	outline *Outline
	memory  memory // shared with the backend
	model   model
	device  deviceMemory
	group   *ddp.Group

	// A step uses these in this order.
	feeder      *data.Feeder
	join        join
	replication replication
	passes      passes
	reducer     *ddp.Reducer
	agreement   agreement
	updater     updater
	report      report

	saver    saver
	recovery *recovery.Recovery
	trace    *timeline.Recorder // nil when off
	pos      position
}

// answers are what the plugins said when they were opened.
type answers struct {
	spec   sdk.DatasetSpec
	policy sdk.Policy
}

// position is where the run is. Everything a step depends on besides the
// tensors follows from it.
type position struct {
	Step    int // optimizer steps done, skipped ones included
	Applied int // steps that changed the weights
	Epoch   int
	Offset  int // samples of this epoch that this rank has consumed
}

// advance is one more step over samples of this rank.
func (p *position) advance(samples int, applied bool) {
	p.Step++
	p.Offset += samples
	if applied {
		p.Applied++
	}
}

// lastEpoch is the epoch of the last step: between two epochs, the finished one.
func (p position) lastEpoch() int {
	if p.Offset == 0 && p.Epoch > 0 {
		return p.Epoch - 1
	}
	return p.Epoch
}
