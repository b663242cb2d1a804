package commands

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/train"
)

func runCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "run CONFIG",
		Short:   "Train: start the ranks, supervise them, show progress",
		Example: "  trainctl run configs/mnist-ddp.toml --nproc-per-node 2 --set train.epochs=3",
	}
	return trainingCommand(cmd, p, run)
}

func workerCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worker CONFIG",
		Short: "Run one rank, configured by the environment",
		Long: `Run one rank of a job that is started by another launcher: torchrun --no-python,
srun or mpirun. Rank and world size come from the environment; see trainctl env.`,
		Example: "  srun -n 4 trainctl worker configs/mnist-ddp.toml",
	}
	trainingCommand(cmd, p, worker)
	start := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return cli.AsRank(start(cmd, args)) }
	return cmd
}

// trainingCommand adds the flags of a run to a command, and what it calls.
func trainingCommand(cmd *cobra.Command, p *cli.Program, train func(context.Context, app.Options, display) error) *cobra.Command {
	var flags cli.ConfigFlags
	var o app.Options
	var d display
	flags.Register(cmd)
	cmd.Args = cli.Exactly("CONFIG")
	f := cmd.Flags()
	f.StringVar(&o.Resume, "resume", "", "resume from the newest checkpoint of this run's name (auto), or from the checkpoint or run at `PATH`")
	faults := f.Bool("allow-faults", false, "make the faults that the table [faults] lists")
	f.StringVar(&d.events, "events", "", "write events as `json` lines to standard output")
	f.StringVar(&d.progress, "progress", "auto", "show progress as `KIND`: auto, plain or none")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := d.complete(cmd); err != nil {
			return err
		}
		var err error
		if o.Config, err = p.Load(cmd, &flags, args[0]); err != nil {
			return err
		}
		if !*faults {
			if err := o.Config.RefuseFaults(); err != nil {
				return err
			}
		}
		cli.Warn(cmd, o.Config)
		return train(cmd.Context(), p.Options(o), d)
	}
	return cmd
}

func run(ctx context.Context, o app.Options, d display) error {
	if err := app.LocateData(o.Config, o.Builtins); err != nil {
		return err
	}
	// The reader of the output may exit, as head does; training continues. The signal
	// is caught, not ignored, because ranks would inherit an ignored one. The signal
	// that requests a checkpoint is caught early, since it may come before training.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGUSR1)
	done := d.show(&o)
	defer done()
	code, err := app.Run(ctx, o)
	if err != nil {
		return cli.OfRun(err, code)
	}
	if code != launch.ExitOK {
		return cli.Reported(cli.WithCode(errors.New("run failed"), code))
	}
	return nil
}

func worker(ctx context.Context, o app.Options, d display) error {
	done := d.show(&o)
	err := app.RunRank(ctx, o)
	done()
	var stopped *train.Preempted
	if w, unknown := app.World(); errors.As(err, &stopped) && unknown == nil && w.LocalRank != 0 {
		return cli.Reported(err) // the first rank of the host reports it for all
	}
	return err
}
