package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/job/secret"
)

// Command is how to start one rank.
type Command struct {
	Path string   // executable
	Args []string // without the executable's own name
	Dir  string   // empty: the launcher's

	// Env is added to the launcher's environment and rank.WorkerEnv; later
	// entries win.
	Env []string

	// ExtraFiles become descriptors 3 and up of the rank. The launcher puts
	// its own pipes after them and leaves these open.
	ExtraFiles []*os.File
}

// Options say what to run. Only Nproc and Command are needed.
type Options struct {
	Name  string // of the job, for messages
	RunID string // equal on all nodes; empty draws one, which suits a single node only

	Nproc   int // ranks on this node
	Threads int // GOMAXPROCS of each; 0 leaves it to the runtime

	Nodes    int    // 0 means 1
	NodeRank int    // of this launcher
	Endpoint string // host:port where node 0's launcher meets the others

	// Secret is known to all launchers of the job; a single node may leave it out
	// and gets a random one. The ranks' own follows from it and never travels.
	Secret secret.Secret

	Ports hostnet.Ports // for what listens between nodes

	MaxRestarts       int
	Grace             time.Duration        // for draining after a signal; 0 kills at once
	Saving            func() time.Duration // raises Grace to what saving is known to need; nil: nothing is
	Requeue           bool                 // SaveSignal saves and ends the job, instead of going on
	RendezvousTimeout time.Duration        // for the launchers to meet; 0 means 2 minutes

	// Command is called once per rank and attempt, from Run's goroutine.
	Command func(w rank.World) Command

	// Prepare runs before the ranks of an attempt are started, with their
	// worlds (this node's). Its error ends the run; a signal cancels its ctx.
	// Child processes that exist when it returns are left alone when orphans are
	// cleaned up.
	Prepare func(ctx context.Context, attempt int, local []rank.World) error

	// Brief is what this node tells the others when they meet. Briefed gets that
	// of node 0 on every other node, before the first attempt, and gives LogDir;
	// its error ends the run. nil: nobody wants to know.
	Brief   []byte
	Briefed func(brief []byte) (logDir string, err error)

	FS     afero.Fs  // for LogDir; nil means the operating system's
	LogDir string    // gets rank-<r>.log, which ReadLogs reads; empty writes none
	Log    io.Writer // gets whole lines, one Write each; nil drops them

	// OnEvent gets each line that a rank wrote to its EventFile. Calls do not
	// overlap; the line belongs to the launcher.
	OnEvent func(rank int, line []byte)

	// Remark says what of a line for OnEvent belongs into the rank's log as well;
	// "" is nothing. Calls may overlap.
	Remark func(line []byte) string

	// Finished tells whether a line for OnEvent says that the rank's work is done.
	// A rank that ends with 0 without one has failed. nil takes every 0 for a
	// good end. Calls may overlap.
	Finished func(line []byte) bool

	// Account gives what a line for OnEvent says of why the rank ends, the zero value
	// for any other line. Calls may overlap.
	Account func(line []byte) Account

	// Settings must be equal on all nodes, as "key = value" in an order that all
	// have; a *SettingsError names the first that is not. They are compared
	// before any rank is started.
	Settings []string

	// Signals are those to heed, syscall.Signals; nil catches the process's own.
	Signals <-chan os.Signal
}

func (o Options) filled() (Options, error) {
	switch {
	case o.Nproc < 1:
		return o, errors.New("launch: no ranks to start")
	case o.Command == nil:
		return o, errors.New("launch: no command")
	case o.Nodes > 1 && (o.RunID == "" || o.Endpoint == ""):
		return o, errors.New("launch: several nodes need a run id and an endpoint in common")
	case o.Nodes > 1 && o.Secret.IsZero():
		return o, secret.Missing(fmt.Sprintf("the job runs on %d hosts", o.Nodes))
	}
	o.Nodes = max(1, o.Nodes)
	if o.RunID == "" {
		o.RunID = newRunID()
	}
	if o.Name == "" {
		o.Name = o.RunID
	}
	if o.Secret.IsZero() {
		o.Secret = secret.New()
	}
	if o.RendezvousTimeout == 0 {
		o.RendezvousTimeout = 2 * time.Minute
	}
	if o.FS == nil {
		o.FS = afero.NewOsFs()
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.OnEvent == nil {
		o.OnEvent = func(int, []byte) {}
	}
	if o.Remark == nil {
		o.Remark = func([]byte) string { return "" }
	}
	if o.Saving == nil {
		o.Saving = func() time.Duration { return 0 }
	}
	if o.Prepare == nil {
		o.Prepare = func(context.Context, int, []rank.World) error { return nil }
	}
	return o, nil
}

// Result is how a run ended.
type Result struct {
	ExitCode int
	Restarts int        // attempts after the first
	Failures []*Failure // one per failed attempt, the last one last
	Signal   os.Signal  // that ended the run, nil if none did
}

// Failure is the last one, nil after a good run.
func (r Result) Failure() *Failure {
	if len(r.Failures) == 0 || r.ExitCode == ExitOK {
		return nil
	}
	return r.Failures[len(r.Failures)-1]
}
