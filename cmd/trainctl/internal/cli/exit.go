package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/job/launch"
)

// usageError is a mistake on the command line.
type usageError struct {
	msg  string
	hint string // command whose help says more
}

func (e *usageError) Error() string { return e.msg }
func (e *usageError) ExitCode() int { return launch.ExitConfig }

// Usagef returns the error of a mistake on the command line.
func Usagef(format string, args ...any) error { return &usageError{msg: fmt.Sprintf(format, args...)} }

// UsageOf is Usagef with a reference to the help of a command.
func UsageOf(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...), cmd.CommandPath()}
}

// OfRun gives an error at a run's end the run's exit code if that is more specific:
// a summary that cannot be written does not hide why the run failed.
func OfRun(err error, code int) error {
	if err != nil && code > launch.ExitFailed {
		return WithCode(err, code)
	}
	return err
}

// WithCode returns err with an exit code of its own.
func WithCode(err error, code int) error { return codedError{err, code} }

type codedError struct {
	error
	code int
}

func (e codedError) Unwrap() error { return e.error }
func (e codedError) ExitCode() int { return e.code }

// Reported returns err as an error whose text was already written.
func Reported(err error) error { return reported{err} }

type reported struct{ error }

func (e reported) Unwrap() error { return e.error }

// AsRank gives an error the exit code that our launcher tells apart, if it started this process.
func AsRank(err error) error {
	if code := app.RankCode(err); launch.Lifeline() != nil && code != ExitCode(err) {
		return WithCode(err, code)
	}
	return err
}

// ExitCode returns the code for an error: its own if it has one, else by kind.
func ExitCode(err error) int { return app.ExitCode(err) }
