package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/trainctl/trainctl/core/sdk"
)

// StartError says why a plugin cannot be used and what to do about it: it did
// not start, and then nothing of it is running any more, or what it publishes
// is not what a run needs.
type StartError struct {
	Kind      sdk.Kind
	Name      string // as written in the TOML
	Problem   string
	Help      string
	LastLines []string // what the plugin printed last
	Err       error    // the cause; may be nil

	// Fault is true where nothing speaks against the plugin itself: a signal
	// ended it, or it is known to be one for this trainctl and stopped
	// answering. Starting it again may help.
	Fault bool
}

func (e *StartError) Error() string {
	verdict := "cannot be used"
	if e.Fault {
		verdict = "did not start"
	}
	s := fmt.Sprintf("%s plugin %q %s: %s", e.Kind, e.Name, verdict, e.Problem)
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
// *sdk.PeerError, *sdk.Error, *usererr.Error) or [ErrDied], [ErrHung],
// [ErrClosed].
type PluginError struct {
	Kind      sdk.Kind
	Name      string // as written in the TOML
	Build     string // the name and version that it publishes, where its own code broke; "" otherwise
	PID       int
	Phase     string // the call: "open", "all_reduce #12", "fill"
	Cause     error
	LastLines []string // what the plugin printed last; set when it died or hung
	// LastFlight is what it was doing then, in words; "" without shared memory.
	LastFlight string
	// Stack is where a plugin hung: the first frames of the goroutine that was in
	// the plugin's code. Go plugins only.
	Stack []string
}

func (e *PluginError) Error() string {
	who := fmt.Sprintf("%s plugin %q", e.Kind, e.Name)
	if e.Build != "" {
		who += " (" + e.Build + ")"
	}
	s := fmt.Sprintf("%s: %s: %v", who, e.Phase, e.Cause)
	if e.LastFlight != "" {
		s += "; its last operation: " + e.LastFlight
	}
	if len(e.Stack) > 0 {
		s += "; it hangs in:\n  " + strings.Join(readable(e.Stack), "\n  ")
	}
	return s + quoteLines(e.LastLines)
}

func (e *PluginError) Unwrap() error { return e.Cause }

// brokeDown says whether an error is the plugin's own breakdown: its code
// panicked or its process ended, and its version matters to whoever looks for why.
func brokeDown(err error) bool {
	var reported *sdk.Error
	return errors.Is(err, ErrDied) || errors.As(err, &reported) && reported.Code == sdk.CodePanic
}

// DataError says that the data cannot be used: files are missing, damaged, or no
// data set. Neither the plugin nor a restart is to blame or of help.
type DataError struct{ Err error }

func (e *DataError) Error() string { return e.Err.Error() }

func (e *DataError) Unwrap() error { return e.Err }

// ExitCode is trainctl's for a wrong configuration.
func (e *DataError) ExitCode() int { return 2 }

// fillError makes a data set's word that its data cannot be used a *DataError.
// Any other error may pass when the job starts again.
func fillError(err error) error {
	if sdk.IsCorrupt(err) {
		return &DataError{Err: err}
	}
	return err
}

// dataError makes the plugin's own verdict on its data a *DataError. Death,
// hang, a panic and an end of the caller's patience are none.
func dataError(ctx context.Context, err error) error {
	var reported *sdk.Error
	switch {
	case err == nil, ctx.Err() != nil, errors.Is(err, ErrDied), errors.Is(err, ErrHung), errors.Is(err, ErrClosed):
		return err
	case errors.As(err, &reported):
		switch reported.Code {
		case sdk.CodePanic, sdk.CodeProtocol, sdk.CodeUnavailable, sdk.CodeCanceled, sdk.CodeDeadline:
			return err
		}
	}
	return &DataError{Err: err}
}

func quoteLines(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return "; its last lines:\n  " + strings.Join(readable(lines), "\n  ")
}

// readable are lines without what could steer a terminal, of a length that can
// be read: a file that is not a plugin may print anything.
func readable(lines []string) []string {
	const most = 500
	out := make([]string, len(lines))
	for i, line := range lines {
		r := []rune(strings.ToValidUTF8(line, "�"))
		if len(r) > most {
			r = append(r[:most:most], '…')
		}
		for k, c := range r {
			if unicode.IsControl(c) && c != '\t' {
				r[k] = '�'
			}
		}
		out[i] = string(r)
	}
	return out
}
