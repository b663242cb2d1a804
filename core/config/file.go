package config

import (
	"cmp"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/fault"
	"github.com/trainctl/trainctl/core/train/metric"
	"github.com/trainctl/trainctl/core/train/outline"
)

// File is the whole configuration, one field per table, in the order in which
// it is printed.
type File struct {
	Run        outline.RunConfig    `toml:"run"`
	Launch     launch.Config        `toml:"launch"`
	Backend    host.BackendConfig   `toml:"backend"`
	Precision  host.PrecisionConfig `toml:"precision"`
	Dataset    host.DatasetConfig   `toml:"dataset"`
	Plugins    host.PluginsConfig   `toml:"plugins"`
	Sampler    data.Config          `toml:"sampler"`
	Train      outline.TrainConfig  `toml:"train"`
	Eval       metric.Config        `toml:"eval"`
	Model      nn.Config            `toml:"model"`
	Optimizer  optim.Config         `toml:"optimizer"`
	Scheduler  optim.ScheduleConfig `toml:"lr_scheduler"`
	DDP        ddp.Config           `toml:"ddp"`
	Checkpoint checkpoint.Config    `toml:"checkpoint"`
	Metrics    event.Config         `toml:"metrics"`
	Faults     fault.Config         `toml:"faults"`

	Observers    []host.ObserverConfig    `toml:"observers"`
	LayerPlugins []host.LayerPluginConfig `toml:"layer_plugins"`
}

// defaults returns the configuration of an empty file. As in PyTorch, some defaults
// depend on the optimizer: optimizer is its name, "" means the default one.
func defaults(optimizer string) File {
	return File{
		Run:        outline.DefaultRun(),
		Launch:     launch.Default(),
		Backend:    host.DefaultBackend(),
		Precision:  host.DefaultPrecision(),
		Dataset:    host.DefaultDataset(),
		Plugins:    host.DefaultPlugins(),
		Sampler:    data.Default(),
		Train:      outline.DefaultTrain(),
		Eval:       metric.Default(),
		Model:      nn.Config{},
		Optimizer:  optim.DefaultFor(cmp.Or(optimizer, "sgd")),
		Scheduler:  optim.DefaultSchedule(),
		DDP:        ddp.Default(),
		Checkpoint: checkpoint.Default(),
		Metrics:    event.Default(),
	}
}

// Defaults are the tables of an empty file, with a name for the run.
func Defaults() File {
	f := defaults("")
	f.Run.Name = "run"
	return f
}
