package app

import (
	"io"
	"os"

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

	// InProcess runs built-in plugins in the process of the rank instead of one of their own.
	InProcess bool

	// Sinks display the run. Ranks that our launcher did not start send them
	// only what rank 0 does not report; none may be given.
	Sinks []event.Sink

	// Rank returns how the launcher starts a rank with this executable: it reads a configuration and
	// continues from a checkpoint, "" for none. nil: with trainctl's command worker.
	Rank func(config, resume string) (args, env []string)

	// Signals delivers the signals that a launcher acts on; nil: it catches those of the process.
	Signals <-chan os.Signal

	// EvaluationDir is an existing folder into which Evaluate writes evaluation.json; "": it writes none.
	EvaluationDir string

	// Weights is the path of a safetensors file that rank 0 writes at the end; "": none.
	Weights string

	Log io.Writer // gets whole lines for people: output of ranks, the failure block

	place    place         // what our launcher gave this rank
	external *externalRank // nil if our launcher started this rank
}
