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
	events   []chan<- Event
	sinks    []event.Sink
	log      io.Writer
	resume   string
	rankArgs []string // nil: those of this process
}

func newSettings(options []Option) *settings {
	s := &settings{}
	for _, o := range options {
		o(s)
	}
	return s
}

// Ranks sets the number of ranks on this host, launch.nproc_per_node.
func Ranks(n int) Option { return Set(fmt.Sprintf("launch.nproc_per_node=%d", n)) }

// Threads makes ranks goroutines of this process: launch.ranks = "threads".
func Threads() Option { return Set(`launch.ranks="threads"`) }

// Set changes keys of the configuration, as [Config.With] does. Where both set a key, With wins.
func Set(keyValues ...string) Option {
	return func(s *settings) { s.set = append(s.set, keyValues...) }
}

// Backend replaces the backend that the configuration names, with default options. newBackend is called
// once for each rank, and also where only the backend's Info is needed; the instances that it returns
// work together. Each runs in the process of its rank.
func Backend(newBackend func() sdk.Backend) Option {
	return value(sdk.KindBackend, newBackend().Info(), sdk.Plugin{Backend: newBackend})
}

// TCP is the built-in backend that works over TCP and, between ranks of one host, through shared
// memory.
func TCP() sdk.Backend { return tcp.New() }

// Dataset replaces the data set that the configuration names, with default options. newDataset is
// called as newBackend of [Backend] is. The method New of a [Slice] is one.
func Dataset(newDataset func() sdk.Dataset) Option {
	return value(sdk.KindDataset, newDataset().Info(), sdk.Plugin{Dataset: newDataset})
}

// Precision replaces the precision plugin that the configuration names, with default options.
// newPrecision is called as newBackend of [Backend] is.
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
// the context of Run. With several of these options, each channel gets all events.
func Events(c chan<- Event) Option {
	return func(s *settings) { s.events = append(s.events, c) }
}

// Log writes whole lines about the run for people: progress, output of the ranks, and why one failed.
func Log(w io.Writer) Option { return func(s *settings) { s.log = w } }

// Resume continues from a checkpoint, from the newest checkpoint of a run's directory, or with "auto"
// from the newest one of the configuration's run.name, if there is any.
func Resume(from string) Option { return func(s *settings) { s.resume = from } }

// RankArgs sets the arguments with which this executable is started again for each rank that is a
// process; the default is those of this process. In the new process, the first call of Run runs the
// rank. In a Go test, use "-test.run=^TestName$".
func RankArgs(args ...string) Option {
	return func(s *settings) { s.rankArgs = append([]string{}, args...) }
}

// Event is one event of a run: when it happened, on which rank, and what.
type Event = event.Record

// The field Event of an Event points to one of these, or to another type of package core/report/event.
type (
	StepDone        = event.StepDone
	EvalDone        = event.EvalDone
	CheckpointSaved = event.CheckpointSaved
	Warning         = event.Warning
)
