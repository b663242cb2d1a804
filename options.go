package trainctl

import (
	"fmt"
	"io"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	tcp "github.com/trainctl/trainctl/plugins/backend-tcp"
)

// Option changes one call of Run.
type Option func(*settings)

// settings are what options set.
type settings struct {
	set      []string // keys of the configuration
	values   []host.Builtin
	events   chan<- Event
	sinks    []event.Sink
	log      io.Writer
	resume   string
	rankArgs []string // nil: those of this process
}

// Ranks sets the number of ranks on this host, launch.nproc_per_node.
func Ranks(n int) Option { return Set(fmt.Sprintf("launch.nproc_per_node=%d", n)) }

// Threads makes ranks goroutines of this process: launch.ranks = "threads".
func Threads() Option { return Set(`launch.ranks="threads"`) }

// Set changes keys of the configuration, as [Config.With] does. Values of With win.
func Set(keyValues ...string) Option {
	return func(s *settings) { s.set = append(s.set, keyValues...) }
}

// Backend uses another backend than the configuration names, with default options. newBackend is called
// for each rank, and besides where only the backend's Info is needed; it returns instances that work
// together. Instances run in the process of their rank.
func Backend(newBackend func() sdk.Backend) Option {
	return value(sdk.KindBackend, newBackend().Info(), sdk.Plugin{Backend: newBackend})
}

// TCP is the built-in backend that works over TCP and, between ranks of one host, through shared
// memory.
func TCP() sdk.Backend { return tcp.New() }

// Dataset uses another data set than the configuration names, with default options. newDataset is
// called for each rank, as that of Backend. A [Slice] has a suitable method New.
func Dataset(newDataset func() sdk.Dataset) Option {
	return value(sdk.KindDataset, newDataset().Info(), sdk.Plugin{Dataset: newDataset})
}

// Precision uses another precision plugin than the configuration names, with default options.
// newPrecision is called for each rank, as that of Backend.
func Precision(newPrecision func() sdk.Precision) Option {
	return value(sdk.KindPrecision, newPrecision().Info(), sdk.Plugin{Precision: newPrecision})
}

// value uses a Go value as the plugin of a kind. It comes before built-in plugins of its name.
func value(kind sdk.Kind, info sdk.Info, p sdk.Plugin) Option {
	return func(s *settings) {
		s.values = append([]host.Builtin{{Kind: kind, Name: info.Name, Plugin: p}}, s.values...)
		s.set = append(s.set, fmt.Sprintf("%s.plugin=%q", kind, info.Name), fmt.Sprintf("%s.options={}", kind), fmt.Sprintf("%s.sha256=%q", kind, ""))
	}
}

// Events sends all events of the run to a channel, in order, and closes it after the last one. The
// run never waits for the reader: events wait in memory. Read until the channel is closed, or cancel
// the context of Run.
func Events(c chan<- Event) Option { return func(s *settings) { s.events = c } }

// Log writes whole lines about the run for people: progress, output of the ranks, and why one failed.
func Log(w io.Writer) Option { return func(s *settings) { s.log = w } }

// Resume continues from a checkpoint, from the newest checkpoint of a run's directory, or with "auto"
// from the newest one of the configuration's run.name, if there is any.
func Resume(from string) Option { return func(s *settings) { s.resume = from } }

// RankArgs are the arguments with which this executable is started again for each rank that is a
// process, instead of those of this process. The first call of Run that it then comes to runs the rank.
// In a Go test they are "-test.run=^TestName$".
func RankArgs(args ...string) Option {
	return func(s *settings) { s.rankArgs = append([]string{}, args...) }
}

// Event is one event of a run: when it happened, on which rank, and what.
type Event = event.Record

// What the field Event of an Event points to. Package core/report/event has the other kinds.
type (
	StepDone        = event.StepDone
	EvalDone        = event.EvalDone
	CheckpointSaved = event.CheckpointSaved
	Warning         = event.Warning
)
