package watch

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/plugin/flight"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/rundir"
	"github.com/trainctl/trainctl/core/report/watch"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// Command returns "trainctl watch".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch RUN",
		Short: "Show a run in the terminal until it ends",
		Long: `Show a run in the terminal: progress, sparklines of loss and speed, where the time of a step
goes, the cores that its ranks use, and its last events. It follows a running run until
that ends; Ctrl-C ends the display only. Without a terminal, it prints plain lines.
RUN is a run's directory, its name (the newest run of that name), name and number
(mnist-ddp/3), or latest.`,
		Example: "  trainctl watch latest\n  trainctl watch mnist-ddp/3 --once",
		Args:    cli.Exactly("RUN"),
	}
	base := cmd.Flags().String("run-dir", cli.DefaultRuns, "look for runs in `DIR`")
	once := cmd.Flags().Bool("once", false, "show the run as it is now, and end")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := cli.FindRun(*base, args[0])
		if err != nil {
			return err
		}
		w := cmd.OutOrStdout()
		d := &display{w: w, run: rundir.Open(checkpoint.OsFS(), dir), live: cli.Interactive(w), color: cli.Colorful(w)}
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		if *once {
			return d.once()
		}
		return d.follow(ctx)
	}
	return cmd
}

// display shows a run on a terminal or as plain lines.
type display struct {
	w     io.Writer
	run   *rundir.Reader
	live  bool
	color bool

	usage watch.Usage
	plain watch.Plain
	drawn bool
}

// Intervals at which files are read, which is also how often processor time is measured.
const poll = time.Second

// follow shows the run until it ends or ctx is cancelled.
func (d *display) follow(ctx context.Context) error {
	began := time.Now()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	stops := make(chan os.Signal, 1)
	if d.live && !signal.Ignored(syscall.SIGTSTP) { // it is ignored where no shell does job control
		signal.Notify(stops, syscall.SIGTSTP)
		defer signal.Stop(stops)
	}
	for {
		if _, err := d.run.Update(); err != nil {
			return err
		}
		now := time.Now()
		r := d.run.Run
		starting := r.Began.IsZero() && r.Summary == nil && now.Sub(began) < rundir.Silence
		last := !starting && r.Status(now) != rundir.Running || ctx.Err() != nil
		if err := d.show(now, last); err != nil || last {
			return err
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-stops:
			if err := d.pause(); err != nil {
				return err
			}
		}
	}
}

// pause removes the block, so that the shell's prompt has a line of its own, and stops the process, as
// SIGTSTP would have. It returns when the process continues.
func (d *display) pause() error {
	if d.drawn {
		d.drawn = false
		if _, err := io.WriteString(d.w, event.EraseBlock); err != nil {
			return err
		}
	}
	return syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}

// once shows the run as it is.
func (d *display) once() error {
	if _, err := d.run.Update(); err != nil {
		return err
	}
	columns, _ := cli.Size(d.w)
	_, err := fmt.Fprintln(d.w, strings.Join(watch.Lines(d.run.Run, watch.Options{Columns: columns, Color: d.color, Now: time.Now()}), "\n"))
	return err
}

// show draws the block in place of the one before, or prints what is new.
func (d *display) show(now time.Time, last bool) error {
	if !d.live {
		for _, line := range d.plain.Next(d.run.Run, now) {
			if _, err := fmt.Fprintln(d.w, line); err != nil {
				return err
			}
		}
		return nil
	}
	columns, rows := cli.Size(d.w)
	lines := watch.Lines(d.run.Run, watch.Options{Columns: columns - 1, Rows: rows - 1, Color: d.color, Now: now, Usage: d.usage.Measure(places(d.run.Run), now)})
	text := event.Block(lines)
	if last {
		text = strings.Join(lines, "\n") + "\n"
	}
	if d.drawn {
		text = event.EraseBlock + text
	}
	d.drawn = true
	_, err := io.WriteString(d.w, text)
	return err
}

// places are the processes of the ranks, which their flight records name; none before they exist.
func places(r *rundir.Run) map[int]watch.Place {
	out := map[int]watch.Place{}
	records, err := flight.Read(r.Dir.Flights())
	if err != nil {
		return out
	}
	for _, k := range records.Ranks {
		out[k.Rank] = watch.Place{Host: k.Host, Process: rundir.Process{PID: k.PID, Seen: k.Started}}
	}
	return out
}
