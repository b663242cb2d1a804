package host

import (
	"context"
	"errors"

	"github.com/trainctl/trainctl/core/sdk"
)

// Causes of a PluginError that the plugin did not report itself.
var (
	ErrDied   = errors.New("the process ended")
	ErrHung   = errors.New("the process gives no sign of life")
	ErrClosed = errors.New("the plugin is closed")
)

// New makes a host. It starts nothing.
func New(o Options) *Host { return &Host{opts: o} }

// ServeBuiltin serves a built-in plugin and does not return if args, the
// command line without the program's name, are "plugin KIND NAME". Otherwise
// it returns false at once.
func ServeBuiltin(builtins []Builtin, args []string) bool { return false }

// List gives the built-in plugins' Info, ordered by kind and name.
func (h *Host) List() []sdk.Info { return nil }

// Describe gives the Info of a plugin as named in the TOML. A built-in one is
// asked in this process, a path is started for a moment.
func (h *Host) Describe(ctx context.Context, kind sdk.Kind, plugin string) (sdk.Info, error) {
	return sdk.Info{}, errors.ErrUnsupported
}

// StartBackend starts a backend: a built-in name or a path.
func (h *Host) StartBackend(ctx context.Context, plugin string) (*Backend, error) {
	return nil, errors.ErrUnsupported
}

// StartDataset starts a data set: a built-in name or a path.
func (h *Host) StartDataset(ctx context.Context, plugin string) (*Dataset, error) {
	return nil, errors.ErrUnsupported
}

// StartPrecision starts a precision plugin: a built-in name or a path.
func (h *Host) StartPrecision(ctx context.Context, plugin string) (*Precision, error) {
	return nil, errors.ErrUnsupported
}

// InProcessBackend runs an instance in this process.
func InProcessBackend(b sdk.Backend) *Backend { return nil }

// InProcessDataset runs an instance in this process.
func InProcessDataset(d sdk.Dataset) *Dataset { return nil }

// InProcessPrecision runs an instance in this process.
func InProcessPrecision(p sdk.Precision) *Precision { return nil }

// Backend is a running backend plugin.
type Backend struct{ Collectives }

// Dataset is a running dataset plugin.
type Dataset struct{ Batches }

// Precision is a running precision plugin.
type Precision struct{ Scaler }
