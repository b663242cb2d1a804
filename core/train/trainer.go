package train

import (
	"context"
	"time"

	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/agreement"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/core/train/passes"
	"github.com/trainctl/trainctl/core/train/recovery"
	"github.com/trainctl/trainctl/core/train/replica"
	"github.com/trainctl/trainctl/core/train/report"
	"github.com/trainctl/trainctl/core/train/update"
)

// Gather exchanges opaque bytes between all ranks before collectives work:
// the result's element r came from rank r. The name is equal on all ranks.
type Gather func(ctx context.Context, name string, mine []byte) ([][]byte, error)

// Request is what the command line requests of a run in addition to its configuration. It
// is passed on unchanged to the loop.
type Request struct {
	// Resume is a checkpoint, a directory of checkpoints, or "". With
	// ResumeAuto a directory without any is a fresh start.
	Resume     string
	ResumeAuto bool
	// SaveAsked counts this rank's requests to save a checkpoint after the current step
	// and to continue; nil: there are none.
	SaveAsked func() int64
	EvalOnly  bool // evaluate what Resume names; nothing is trained

	Build   string    // of the binary, for checkpoints and messages between ranks
	Started time.Time // of the launcher's process, for time to the first step
}

// Deps are the dependencies of a Trainer. The caller starts and closes them.
type Deps struct {
	Settings  outline.Settings
	World     rank.World
	Secret    []byte
	Gather    Gather
	Members   recovery.Members // nil: the ranks stay the same
	Backend   host.Collectives
	Dataset   host.Batches
	Precision host.Scaler
	Device    plan.Device
	GPU       ddp.GPU // the GPU of the device; zero on a CPU
	Events    *event.Bus

	Request
	// FS is where checkpoints are read, and Store where rank 0 writes them;
	// nil on the other ranks and when checkpoints are off.
	FS    checkpoint.FS
	Store *checkpoint.Store

	// WriteEvaluation writes the details of an evaluation; nil on other ranks than 0 and where
	// there is no run directory.
	WriteEvaluation func(*event.Evaluation) error

	// Plugins says which plugins these are; nil on other ranks than 0.
	Plugins func() []event.PluginStarted
	// Joins says that the run of the Members has begun without this rank, until it is admitted; Lead makes it write
	// what rank 0 writes, if all ranks before it are lost.
	Joins bool
	Lead  func() (*checkpoint.Store, func() []event.PluginStarted, error)
	// BeforeStep is called before every step, from 1 on: to inject faults, and for what the first step must not wait for.
	// nil: there is nothing to do.
	BeforeStep func(step int) error
	// PeakRSS measures this rank with its plugins; nil means unknown.
	PeakRSS func() int64
}

// Trainer is one rank's run. It must be used on one goroutine. Its parts know nothing
// of it.
type Trainer struct {
	Deps
	answers

	outline *outline.Outline
	memory  replica.Memory // shared with the backend
	model   replica.Model
	device  replica.Device
	group   *ddp.Group

	// A step uses these in this order.
	feeder      *data.Feeder
	join        join
	replication replica.Replication
	passes      passes.Passes
	reducer     *ddp.Reducer
	agreement   agreement.Agreement
	updater     update.Updater
	report      report.Report

	saver    saver
	recovery *recovery.Recovery
	trace    *timeline.Recorder // nil when off
	pos      outline.Position

	shares shares
}

// answers are what the plugins said when they were opened.
type answers struct {
	spec   sdk.DatasetSpec
	policy sdk.Policy
}
