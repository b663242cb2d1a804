package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/app"
)

func runCommand(s *services) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "run CONFIG",
		Short:   "Train: start the ranks, supervise them, show progress",
		Example: "  trainctl run configs/mnist-ddp.toml --nproc-per-node 2 --set train.epochs=3",
	}
	return trainingCommand(cmd, s, s.Run)
}

func workerCommand(s *services) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worker CONFIG",
		Short: "Run one rank, configured by the environment",
		Long: `Run one rank of a job that is started by another launcher: torchrun --no-python,
srun or mpirun. Rank and world size come from the environment; see trainctl env.`,
		Example: "  srun -n 4 trainctl worker configs/mnist-ddp.toml",
	}
	trainingCommand(cmd, s, s.Worker)
	start := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return asRank(start(cmd, args)) }
	return cmd
}

// trainingCommand adds the flags of a run to a command, and the service it calls.
func trainingCommand(cmd *cobra.Command, s *services, train func(context.Context, app.Options, display) error) *cobra.Command {
	var flags configFlags
	var o app.Options
	var d display
	flags.register(cmd)
	cmd.Args = exactly("CONFIG")
	f := cmd.Flags()
	f.StringVar(&o.Resume, "resume", "", "resume from the newest checkpoint of this run's name (auto), or from the checkpoint or run at `PATH`")
	f.StringVar(&d.events, "events", "", "write events as `json` lines to standard output")
	f.StringVar(&d.progress, "progress", "auto", "show progress as `KIND`: auto, plain or none")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := d.complete(cmd); err != nil {
			return err
		}
		var err error
		if o.Config, err = flags.load(cmd, s, args[0]); err != nil {
			return err
		}
		warn(cmd, o.Config)
		return train(cmd.Context(), o, d)
	}
	return cmd
}

// complete checks the flags and fills in what depends on environment and terminal.
func (d *display) complete(cmd *cobra.Command) error {
	if d.events != "" && d.events != "json" {
		return usagef("--events %q: use json", d.events)
	}
	switch d.progress {
	case "auto", "plain", "none":
	default:
		return usagef("--progress %q: use auto, plain or none", d.progress)
	}
	d.stdout, d.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	if d.progress == "auto" && !interactive(d.stderr) {
		d.progress = "plain"
	}
	return nil
}
