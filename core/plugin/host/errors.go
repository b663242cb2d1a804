package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/trainctl/trainctl/core/sdk"
)

// StartError is the reason why a plugin cannot be used, and the fix: it did not
// start, and then none of its processes is left, or it does not publish what a run
// needs.
type StartError struct {
	Kind      sdk.Kind // "" if no kind was asked for
	Name      string   // as written in the TOML
	Problem   string
	Help      string
	LastLines []string // what the plugin printed last
	Err       error    // the cause; may be nil

	// Fault is true if the plugin itself may be sound: a signal ended it, or it
	// was built for this trainctl and stopped answering. Starting it again may help.
	Fault bool
}

func (e *StartError) Error() string {
	verdict := "cannot be used"
	if e.Fault {
		verdict = "did not start"
	}
	s := strings.TrimSpace(fmt.Sprintf("%s plugin %q %s: %s", e.Kind, e.Name, verdict, e.Problem))
	if e.Help != "" {
		s += "; " + e.Help
	}
	return s + quoteLines(e.LastLines)
}

func (e *StartError) Unwrap() error { return e.Err }

// OfAnyKind is the error of a plugin that was tried for every kind: it does not name the one that was
// tried first.
func OfAnyKind(err error) error {
	var start *StartError
	if !errors.As(err, &start) {
		return err
	}
	e := *start
	e.Kind = ""
	return &e
}

// Causes of a PluginError that the host detects.
var (
	ErrDied   = errors.New("the process ended")
	ErrHung   = errors.New("the process hangs")
	ErrClosed = errors.New("the plugin is closed")
)

// PluginError is any failure of a running plugin. Unwrap gives what the
// plugin itself reported (*sdk.StallError, *sdk.MismatchError,
// *sdk.PeerError, *sdk.Error, *usererr.Error) or [ErrDied], [ErrHung],
// [ErrClosed].
type PluginError struct {
	Kind      sdk.Kind
	Name      string // as written in the TOML
	Build     string // the name and version that it publishes, if its own code failed; "" otherwise
	PID       int
	Phase     string // the call: "open", "all_reduce #12", "fill"
	Cause     error
	LastLines []string // what the plugin printed last; set when it died or hung
	// LastFlight describes the operation that it was running; "" without shared memory.
	LastFlight string
	// Refused is what the plugin's sandbox has probably refused to it, with the fix; "" if nothing.
	Refused string
	// Stack is where a plugin hangs: the first frames of the goroutine in the
	// plugin's code. Go plugins only.
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
	if e.Refused != "" {
		s += "; " + e.Refused
	}
	if len(e.Stack) > 0 {
		s += "; it hangs in:\n  " + strings.Join(readable(e.Stack), "\n  ")
	}
	return s + quoteLines(e.LastLines)
}

func (e *PluginError) Unwrap() error { return e.Cause }

// brokeDown reports whether the plugin itself failed: its code panicked or its
// process ended. Its version then helps to find the cause.
func brokeDown(err error) bool {
	var reported *sdk.Error
	return errors.Is(err, ErrDied) || errors.As(err, &reported) && reported.Code == sdk.CodePanic
}

// DataError reports that the data cannot be used: files are missing, damaged, or not
// a data set. It is not a fault of the plugin, and a restart does not help.
type DataError struct{ Err error }

func (e *DataError) Error() string { return e.Err.Error() }

func (e *DataError) Unwrap() error { return e.Err }

// ExitCode returns trainctl's exit code for a wrong configuration.
func (e *DataError) ExitCode() int { return 2 }

// fillError turns a data set's error of corrupt data into a *DataError. Any other
// error may disappear when the job is restarted.
func fillError(err error) error {
	if sdk.IsCorrupt(err) {
		return &DataError{Err: err}
	}
	return err
}

// dataError turns an error that the plugin returned about its data into a *DataError,
// but not death, a hang, a panic or a timeout of the caller.
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

// readable removes control characters from lines and shortens them: a file that is
// not a plugin may print anything.
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
