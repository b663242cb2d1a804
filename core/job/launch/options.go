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
	"github.com/trainctl/trainctl/core/job/etcd"
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

// Options say what to run. Only Nproc and one of Command and Thread are needed.
type Options struct {
	Name  string // of the job, for messages
	RunID string // equal on all nodes; empty: a random one, only for a single node

	Nproc   int // ranks on this node
	Threads int // GOMAXPROCS of each; 0 leaves it to the runtime

	Nodes    int    // 0 means 1
	Least    int    // of a range whose largest number is Nodes; 0: there are Nodes
	NodeRank int    // of this launcher
	Endpoint string // host:port where node 0's launcher meets the others

	// Secret is shared by all launchers of the job; a single node without one gets
	// a random one. The ranks' secret is derived from it and never sent.
	Secret secret.Secret

	// Etcd is where the launchers of a range of nodes meet, instead of at Endpoint. They take their
	// NodeRank there. nil: node 0 must stay.
	Etcd *etcd.Config

	Ports hostnet.Ports // for what listens between nodes

	Elastic           bool          // the ranks continue without one that died
	LostAfter         time.Duration // with Elastic, for a rank that is silent
	LateAfter         time.Duration // with Elastic, for a rank that answers, but does not come to the next group; 0 means LostAfter
	WaitForNodes      time.Duration // with Least, for enough nodes, and for a node to find the others again
	MaxRestarts       int
	Grace             time.Duration        // for draining after a signal; 0 kills at once
	Saving            func() time.Duration // raises Grace to the time that saving is known to need; nil: unknown
	Requeue           bool                 // SaveSignal saves and ends the job, instead of continuing it
	RendezvousTimeout time.Duration        // for the launchers to meet; 0 means 2 minutes

	// Command is called once per rank and attempt, from Run's goroutine.
	Command func(w rank.World) Command

	// Thread runs a rank on a goroutine of this process and returns its exit code; nil: ranks are
	// processes that Command starts. A cancelled ctx is what SIGTERM is to a process. A rank that
	// does not return is left behind, since a goroutine cannot be killed.
	Thread func(ctx context.Context, p Place) (exitCode int)

	// Prepare runs before the ranks of an attempt are started, with their
	// worlds (this node's). Its error ends the run; a signal cancels its ctx.
	// Child processes that exist when it returns are left alone when orphans are
	// cleaned up.
	Prepare func(ctx context.Context, attempt int, local []rank.World) error

	// Brief is sent to the other nodes when they meet. Briefed gets node 0's on
	// every other node, before the first attempt, and returns LogDir; its error
	// ends the run. It may be nil.
	Brief   []byte
	Briefed func(brief []byte, node int) (logDir string, err error)

	// Begin returns Brief and LogDir with Etcd, on the node that begins the job.
	Begin func() (brief []byte, logDir string, err error)

	FS     afero.Fs  // for LogDir; nil means the operating system's
	LogDir string    // gets rank-<r>.log, which ReadLogs reads; empty writes none
	Log    io.Writer // gets whole lines, one Write each; nil drops them

	// OnEvent gets each line that a rank wrote to its EventFile. Calls do not
	// overlap; the line belongs to the launcher.
	OnEvent func(rank int, line []byte)

	// Remark returns what to write into the rank's log for a line for OnEvent; ""
	// is nothing. Calls may overlap.
	Remark func(line []byte) string

	// Lost is called for each rank that an elastic job continues without, on the node that hosts
	// the store. Calls do not overlap.
	Lost func(rank, attempt int)

	// Warn reports a problem that does not end the run; nil writes it to Log. Calls may overlap.
	Warn func(source, message string)

	// Finished reports whether a line for OnEvent says that the rank's work is
	// done. A rank that exits with 0 before such a line has failed. With nil every
	// exit with 0 is a success. Calls may overlap.
	Finished func(line []byte) bool

	// Account returns what a line for OnEvent reports about why the rank ends, the
	// zero value for any other line. Calls may overlap.
	Account func(line []byte) Account

	// Settings must be equal on all nodes, as "key = value" in the same order; a
	// *SettingsError reports the first that is not. They are compared before any
	// rank is started.
	Settings []string

	// Signals delivers the syscall.Signals to act on; nil catches the process's own.
	Signals <-chan os.Signal
}

func (o Options) filled() (Options, error) {
	switch {
	case o.Nproc < 1:
		return o, errors.New("launch: no ranks to start")
	case o.Command == nil && o.Thread == nil:
		return o, errors.New("launch: no command")
	case (o.Nodes > 1 || o.Least > 0) && (o.RunID == "" || o.Endpoint == "" && o.Etcd == nil):
		return o, errors.New("launch: several nodes need a common run id and endpoint")
	case (o.Nodes > 1 || o.Least > 0) && o.Secret.IsZero():
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
	if o.Lost == nil {
		o.Lost = func(int, int) {}
	}
	if o.Saving == nil {
		o.Saving = func() time.Duration { return 0 }
	}
	if o.Prepare == nil {
		o.Prepare = func(context.Context, int, []rank.World) error { return nil }
	}
	return o, nil
}

// ranksSecret is the secret of the ranks of an attempt.
func (o Options) ranksSecret(attempt int) secret.Secret {
	return o.Secret.Derive(fmt.Sprintf("ranks of attempt %d", attempt))
}

// Result is how a run ended.
type Result struct {
	Hosts    bool // this node had the ranks' store
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
