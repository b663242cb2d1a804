package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/base/lossy"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/train"
)

// Report writes an error to the terminal, if that still reads it.
func Report(cmd *cobra.Command, err error) {
	w := lossy.NewWriter(cmd.ErrOrStderr(), lossy.Options{})
	defer w.Close()
	var done reported
	var asked *train.Preempted
	var early app.Interrupted
	var bad *config.Error
	var usage *usageError
	switch {
	case errors.As(err, &done), errors.As(err, new(app.Told)):
	case errors.As(err, &asked), errors.As(err, &early): // not an error: the user asked for it
		fmt.Fprintln(w, err)
	case errors.As(err, &bad):
		_ = config.Render(w, bad.Diagnostics, Colorful(w))
	case errors.As(err, &usage):
		fmt.Fprintf(w, "%s: %s\n", errorWord(w), usage.msg)
		if usage.hint != "" {
			fmt.Fprintf(w, "see: %s --help\n", usage.hint)
		}
	default:
		fmt.Fprintf(w, "%s: %v\n", errorWord(w), usererr.Allowed(err))
	}
}
