package main

import (
	"context"

	"github.com/spf13/cobra"
)

func runCommand(s *services) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "run CONFIG",
		Short:   "Train: start the ranks, supervise them, show progress",
		Example: "  trainctl run configs/mnist-ddp.toml --nproc-per-node 2 --set train.epochs=3",
	}
	return trainingCommand(cmd, s, "run", func() func(context.Context, runRequest) error { return s.Run })
}

func workerCommand(s *services) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worker CONFIG",
		Short: "Run one rank, configured by the environment",
		Long: `Run one rank of a job that is started by another launcher: torchrun --no-python,
srun or mpirun. Rank and world size come from the environment; see trainctl env.`,
		Example: "  srun -n 4 trainctl worker configs/mnist-ddp.toml",
	}
	trainingCommand(cmd, s, "worker", func() func(context.Context, runRequest) error { return s.Worker })
	start := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return asRank(start(cmd, args)) }
	return cmd
}

// trainingCommand adds the flags of a run to a command, and the service it calls.
func trainingCommand(cmd *cobra.Command, s *services, name string, service func() func(context.Context, runRequest) error) *cobra.Command {
	var flags configFlags
	var req runRequest
	flags.register(cmd)
	cmd.Args = exactly("CONFIG")
	f := cmd.Flags()
	f.StringVar(&req.Resume, "resume", "", "resume from the newest checkpoint of this run's name (auto), or from the checkpoint or run at `PATH`")
	f.StringVar(&req.Events, "events", "", "write events as `json` lines to standard output")
	f.StringVar(&req.Progress, "progress", "auto", "show progress as `KIND`: auto, plain or none")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := req.complete(cmd); err != nil {
			return err
		}
		c, err := flags.load(cmd, s, args[0])
		if err != nil {
			return err
		}
		warn(cmd, c)
		req.Config = c
		if service() == nil {
			return absent(name)
		}
		return service()(cmd.Context(), req)
	}
	return cmd
}

// complete checks the flags and fills in what depends on environment and terminal.
func (r *runRequest) complete(cmd *cobra.Command) error {
	if r.Events != "" && r.Events != "json" {
		return usagef("--events %q: use json", r.Events)
	}
	switch r.Progress {
	case "auto", "plain", "none":
	default:
		return usagef("--progress %q: use auto, plain or none", r.Progress)
	}
	r.Stdout, r.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	r.Color = colorful(r.Stderr)
	if r.Progress == "auto" && !interactive(r.Stderr) {
		r.Progress = "plain"
	}
	return nil
}
