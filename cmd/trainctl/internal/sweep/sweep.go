package sweep

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/base/cgroup"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/report/page"
	"github.com/trainctl/trainctl/core/sweep"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/internal/builtins"
)

// look is how often evaluations of running trials are read.
const look = 500 * time.Millisecond

// Command returns "trainctl sweep".
func Command(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sweep FILE",
		Short: "Train with several settings, and compare the results",
		Long: `Train a configuration with several settings, as many at once as the cores or GPUs of this
machine are enough for. FILE is a TOML file: which configuration, which keys with which values, as a
grid or drawn at random, and by which metric trials are compared and stopped early. All
configurations are checked before the first trial starts. Ctrl-C lets running trials save;
the same command continues, also after a crash. The result is a table, best first, and a page
that compares the best.`,
		Example: `  trainctl sweep lr.toml
  trainctl sweep lr.toml --dir sweeps/again --json`,
		Args: cli.Exactly("FILE"),
	}
	dir := cmd.Flags().String("dir", "", "keep state, runs and report in `DIR` (default: sweeps/ and the name of FILE)")
	best := cmd.Flags().Int("best", 5, "compare the `N` best trials in the report; 0: no report")
	dry := cmd.Flags().Bool("dry-run", false, "check, print the trials, and start nothing")
	retry := cmd.Flags().Bool("retry", false, "start failed trials again")
	show := cli.JSONFlag(cmd, "one JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, err := options(cmd, p, args[0])
		if err != nil {
			return err
		}
		if o.Retry, o.Dry, o.Dir = *retry, *dry, *dir; o.Dir == "" {
			o.Dir = filepath.Join("sweeps", o.File.Name())
		}
		if *best < 0 {
			return cli.Usagef("--best %d: want 0 or more", *best)
		}
		s, err := sweep.Open(o)
		if err != nil {
			return err
		}
		defer s.Close()
		if *dry {
			r := s.Result()
			return show(r, r.Text)
		}
		runErr := run(s)
		r := s.Result()
		if err := s.WriteReport(r, *best, page.Options{Version: cli.Version(), Now: time.Now(), Plugins: builtins.Infos()}); err != nil {
			runErr = errors.Join(runErr, err)
		}
		return end(cmd, runErr, r, show(r, r.Text))
	}
	return cmd
}

// options reads the sweep's file and the machine.
func options(cmd *cobra.Command, p *cli.Program, path string) (o sweep.Options, err error) {
	fsys := checkpoint.OsFS()
	f, err := sweep.ReadFile(fsys, path)
	if err != nil {
		return o, cli.Unreadable(err)
	}
	exe, err := os.Executable()
	if err != nil {
		return o, err
	}
	check := func(set []string) (*config.Config, error) {
		c, err := p.LoadSets(cmd, f.Config, set)
		if err == nil {
			err = c.RefuseFaults()
		}
		return c, err
	}
	m, err := app.Survey(cmd.Context(), "auto")
	if err != nil {
		return o, err
	}
	var uuids []string
	for _, g := range m.GPUs {
		uuids = append(uuids, g.UUID)
	}
	machine := sweep.Machine{Cores: cgroup.Cores(), GPUs: sweep.GPUs(uuids, os.Getenv("CUDA_VISIBLE_DEVICES"))}
	tell := func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
	return sweep.Options{FS: fsys, File: f, Check: check, Start: sweep.Executable(exe), Tell: tell, Machine: machine}, nil
}

// run runs the trials until they are over, or a signal comes.
func run(s *sweep.Sweep) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, launch.StopSignals()...)
	defer signal.Stop(signals)
	tick := time.NewTicker(look)
	defer tick.Stop()
	return s.Run(signals, tick.C)
}

// end says after the table how the sweep ended.
func end(cmd *cobra.Command, err error, r *sweep.Result, shown error) error {
	var interrupted *sweep.InterruptedError
	if errors.As(err, &interrupted) {
		_, werr := io.WriteString(cmd.ErrOrStderr(), err.Error()+"\n")
		return errors.Join(cli.Reported(err), werr)
	}
	if n := r.Failed(); err == nil && n > 0 {
		err = fmt.Errorf("%d of %d trials failed; fix: see the reasons above, then start them again with --retry", n, len(r.Trials))
	}
	return errors.Join(err, shown)
}
