package host

import (
	"context"
	"log/slog"
	"os/exec"
	"time"

	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/plugin/sandbox"
	"github.com/trainctl/trainctl/core/sdk"
)

// Builtin is a plugin that is part of this program. Its process is this executable
// started again.
type Builtin struct {
	Kind   sdk.Kind
	Name   string // as written in the TOML
	Plugin sdk.Plugin
	Env    []string // variables that it inherits in addition to those of every plugin; see [Options.Env]
	// StopTimeout is how long it may take to close; 0: as long as any plugin.
	StopTimeout time.Duration
	// Constant says that its answers follow from its options alone: a process of its own would wait and do nothing else.
	Constant bool
}

// Options are the host's settings. The zero value is usable.
type Options struct {
	Builtins []Builtin
	// Exe is the executable that serves the built-in plugins when started with
	// the arguments "plugin KIND NAME"; default os.Executable().
	Exe string
	// Log gets the plugins' log records and lines, with the attribute "plugin".
	Log *slog.Logger
	// Env lists variables that plugins inherit in addition to the default list; a
	// trailing * matches any suffix. No other variable is passed on.
	Env []string
	// PluginEnv lists variables, as Env does, that only one plugin inherits, by its name or
	// path as written in the TOML.
	PluginEnv map[string][]string
	// SetEnv are "KEY=VALUE" pairs for the plugins.
	SetEnv []string
	// StartTimeout bounds the time until a plugin can be configured; default 15 s.
	StartTimeout time.Duration
	// HangTimeout is how long a plugin may go without a heartbeat; default 10 s.
	HangTimeout time.Duration
	// StopTimeout is how long a plugin may take to close; default 2 s.
	StopTimeout time.Duration
	// SocketDir is where plugins' sockets are created, each in its own directory;
	// "": the directory for temporary files.
	SocketDir string
	// FlightDir returns the directory for files with the backends' last operations,
	// see package flight; "" or nil keeps them only in memory. It is called when a
	// backend is opened. A file that cannot be created is a warning in the log.
	FlightDir func() string
	// Place is the number in the names of these files, for a rank whose number in its group may
	// change; nil is the latter.
	Place *int
	// LocalRank is the number of the rank on its host: which process of TRAINCTL_REATTACH is its own.
	LocalRank int
	// InRank are the kinds whose built-in plugins run in this process: it ends with them, and none
	// of them can be replaced. Any other plugin has its own process.
	InRank []sdk.Kind
	// Terms are what is required of plugins.
	Terms map[Key]Terms
	// Sandbox returns the sandbox of a plugin that has no Terms; nil: none.
	Sandbox func(sdk.Kind) *sandbox.Rules
	// Trace gets every call that a plugin answered, from several goroutines; nil traces
	// nothing.
	Trace func(Call)
	// Start starts a plugin's process; nil is exec.Cmd.Start.
	Start func(*exec.Cmd) error
	// Search are the folders in which plugins are found by name; nil: those of
	// [registry.Folders] for Exe.
	Search registry.Search
}

// Key names a plugin as the TOML does.
type Key struct {
	Kind   sdk.Kind
	Plugin string // name or path
}

// Terms are what is required of a plugin. The zero value requires nothing.
type Terms struct {
	// SHA256 is the sum of the executable in hexadecimal. A file with another sum is
	// not executed.
	SHA256 string
	// Version is a constraint that the plugin's version must satisfy, such as "~> 1.2".
	Version string
	// Lock is the only version of a plugin given by name that may be used, with its sums;
	// nil if it is not locked.
	Lock *registry.Locked
	// Sandbox restricts what a plugin that is not built in may do; nil does not.
	Sandbox *sandbox.Rules
}

// Collectives is the interface of a backend for ranks. Submit, Wait and Close may be
// called from several goroutines, the other methods from one at a time.
type Collectives interface {
	Info() sdk.Info
	Open(ctx context.Context, group sdk.Group, options sdk.Options) error
	// Attach shares an arena with the plugin. With the inline data plane it does nothing.
	Attach(ctx context.Context, arena *sdk.Arena) error
	Listen(ctx context.Context) (endpoint []byte, err error)
	Connect(ctx context.Context, endpoints [][]byte) error
	// Submit queues a collective and returns; operations run one after the
	// other in the order of Submit. c is copied; the memory it names belongs
	// to the backend until Wait returns. If Buf is nil it is taken from Arena
	// and Offset. It blocks only while 64 operations are in flight.
	Submit(c *sdk.Collective) (ticket uint64, err error)
	// Wait returns when the operation has ended. A ticket can be waited for
	// once or never. After an error all later operations fail.
	Wait(ticket uint64) error
	PID() int // 0 in process
	Close(ctx context.Context) error
}

// Batches is the interface of a data set for the loader.
type Batches interface {
	Info() sdk.Info
	Open(ctx context.Context, req sdk.DatasetRequest) (sdk.DatasetSpec, error)
	// Prepare allocates slots for batches of at most batch samples; once,
	// after Open. At most 64 slots.
	Prepare(slots, batch int) error
	// Request asks for samples; the indices are copied. The slot's memory
	// belongs to the plugin until Wait(slot) returns.
	Request(slot int, split sdk.Split, epoch int, seed uint64, indices []int64) error
	// Wait returns the samples requested last for the slot. The memory is
	// valid until the slot's next Request or Close.
	Wait(slot int) (input, target []byte, err error)
	PID() int
	Close(ctx context.Context) error
}

// Scaler is the interface of a precision plugin for the plan and the optimizer.
type Scaler interface {
	Info() sdk.Info
	Policy(ctx context.Context, options sdk.Options) (sdk.Policy, error)
	Update(ctx context.Context, foundInf bool) (sdk.ScaleState, error)
	State(ctx context.Context) (map[string]float64, error)
	Load(ctx context.Context, state map[string]float64) error
	PID() int
	Close(ctx context.Context) error
}

// Host starts plugins. Its methods may be called from several goroutines.
type Host struct{ opts Options }

// New returns a host. It starts no process.
func New(o Options) *Host {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Start == nil {
		o.Start = (*exec.Cmd).Start
	}
	setDefault(&o.StartTimeout, 15*time.Second)
	setDefault(&o.HangTimeout, 10*time.Second)
	setDefault(&o.StopTimeout, 2*time.Second)
	return &Host{opts: o}
}

// WithLog returns the host with another log, for example for one plugin.
func (h *Host) WithLog(log *slog.Logger) *Host {
	o := h.opts
	o.Log = log
	return New(o)
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
}
