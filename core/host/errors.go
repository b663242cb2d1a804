package host

import (
	"errors"
	"fmt"
	"strings"

	"github.com/trainctl/trainctl/core/sdk"
)

// StartError says why a plugin could not be started and what to do about it.
// Nothing of the plugin is running any more.
type StartError struct {
	Kind      sdk.Kind
	Name      string // as written in the TOML
	Problem   string
	Help      string
	LastLines []string // what the plugin printed last
	Err       error    // the cause; may be nil
}

func (e *StartError) Error() string {
	s := fmt.Sprintf("%s plugin %q cannot be used: %s", e.Kind, e.Name, e.Problem)
	if e.Help != "" {
		s += "; " + e.Help
	}
	return s + quoteLines(e.LastLines)
}

func (e *StartError) Unwrap() error { return e.Err }

// Causes of a PluginError that the plugin did not report itself.
var (
	ErrDied   = errors.New("the process ended")
	ErrHung   = errors.New("the process gives no sign of life")
	ErrClosed = errors.New("the plugin is closed")
)

// PluginError is any failure of a running plugin. Unwrap gives what the
// plugin itself reported (*sdk.StallError, *sdk.MismatchError,
// *sdk.PeerError, *sdk.Error, *diag.Error) or [ErrDied], [ErrHung],
// [ErrClosed].
type PluginError struct {
	Kind      sdk.Kind
	Name      string
	PID       int
	Phase     string // the call: "open", "all_reduce #12", "fill"
	Cause     error
	LastLines []string // what the plugin printed last; set when it died or hung
	// LastFlight is what it was doing then, in words; "" without shared memory.
	LastFlight string
}

func (e *PluginError) Error() string {
	s := fmt.Sprintf("%s plugin %q: %s: %v", e.Kind, e.Name, e.Phase, e.Cause)
	if e.LastFlight != "" {
		s += "; its last operation: " + e.LastFlight
	}
	return s + quoteLines(e.LastLines)
}

func (e *PluginError) Unwrap() error { return e.Cause }

func quoteLines(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return "; its last lines:\n  " + strings.Join(lines, "\n  ")
}
