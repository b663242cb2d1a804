package commands

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/base/lossy"
	"github.com/trainctl/trainctl/core/report/event"
)

// display is how run and worker show a run.
type display struct {
	events   string // "" or "json": one event per line on standard output
	progress string // "auto", "plain" or "none"; "auto" only if stderr is a terminal
	stdout   io.Writer
	stderr   io.Writer
}

// complete checks the flags and fills in what depends on environment and terminal.
func (d *display) complete(cmd *cobra.Command) error {
	if d.events != "" && d.events != "json" {
		return cli.Usagef("--events %q: use json", d.events)
	}
	switch d.progress {
	case "auto", "plain", "none":
	default:
		return cli.Usagef("--progress %q: use auto, plain or none", d.progress)
	}
	d.stdout, d.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	if d.progress == "auto" && !cli.Interactive(d.stderr) {
		d.progress = "plain"
	}
	return nil
}

// show adds what shows a run as set by --events and --progress. None of it blocks on a reader; done
// waits briefly for what is left.
func (d *display) show(o *app.Options) (done func()) {
	screen := lossy.NewWriter(d.stderr, lossy.Options{Notice: event.DroppedLines})
	progress := event.NewProgress(screen, event.ProgressOptions{Mode: d.progress, Env: os.LookupEnv})
	done = func() { _ = screen.Close() } // it fails only if the reader is gone
	if d.events == "json" {
		events := lossy.NewWriter(d.stdout, lossy.Options{Limit: eventBytes, Notice: event.Dropped(event.Launcher)})
		done = func() {
			reportLost(screen, events)
			_ = screen.Close()
		}
		o.Sinks = append(o.Sinks, event.NewJSONLines(events, func(err error) {
			fmt.Fprintf(progress, "warning: %v; the run continues\n", err)
		}))
	}
	o.Sinks, o.Log = append(o.Sinks, progress), progress
	return done
}

// eventBytes is how far a reader of --events json may fall behind: some 30,000 steps.
const eventBytes = 8 << 20

// reportLost ends the stream of events and reports how many its reader did not read.
func reportLost(w io.Writer, events *lossy.Writer) {
	_ = events.Close() // a reader that has gone was reported already
	if n := events.Lost(); n > 0 {
		fmt.Fprintf(w, "warning: the reader of standard output was too slow: %d events were not written to it; the run's events.jsonl has them\n", n)
	}
}
