package app

import (
	"io"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train"
)

// Options are the arguments of Run, Worker and Evaluate, from the command line and from
// the program itself. All fields without a comment are required.
type Options struct {
	Config *config.Config // checked

	// Request is passed to the training loop. Run takes "auto" for Resume, too:
	// the newest checkpoint of the run's name.
	train.Request

	Builtins []host.Builtin
	Exe      string // executable of the workers and of the built-in plugins; "": this one

	// Sinks display the run. Ranks that our launcher did not start send them
	// only what rank 0 does not report; none may be given.
	Sinks []event.Sink

	Log      io.Writer       // gets whole lines for people: output of ranks, the failure block
	ExitCode func(error) int // what the process will exit with

	external *externalRank // nil if our launcher started this rank
}
