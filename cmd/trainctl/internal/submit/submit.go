package submit

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/job/secret"
	"github.com/trainctl/trainctl/core/job/submit"
)

// Command returns trainctl submit.
func Command(p *cli.Program) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "submit",
		Short: "Write or submit a job for Slurm, Kubernetes or mpirun",
	}, slurmCommand(p), kubernetesCommand(p), mpiCommand(p))
}

func slurmCommand(p *cli.Program) *cobra.Command {
	var j submit.Job
	cmd := &cobra.Command{
		Use:   "slurm CONFIG",
		Short: "Write a batch script for sbatch, or submit it",
		Example: "  trainctl submit slurm configs/mnist-ddp.toml --nnodes 2 --time 2h > job.sh\n" +
			"  trainctl submit slurm configs/mnist-ddp.toml --nnodes 2 --run",
	}
	f := cmd.Flags()
	f.DurationVar(&j.Time, "time", 0, "end the job after this `TIME`; the default is the partition's")
	f.StringVar(&j.Partition, "partition", "", "run in `PARTITION`")
	f.StringVar(&j.Account, "account", "", "charge `ACCOUNT`")
	f.StringVar(&j.Constraint, "constraint", "", "run on nodes with `FEATURES`")
	f.StringArrayVar(&j.More, "sbatch", nil, "add an `OPTION` of sbatch, such as --sbatch=--qos=high; may be given several times")
	node(f, &j, "before the time limit, SIGUSR1 comes this `TIME` early")
	return writer(cmd, p, &j, func() string { return "slurm" }, "sbatch")
}

func kubernetesCommand(p *cli.Program) *cobra.Command {
	var j submit.Job
	kind := "jobset"
	cmd := &cobra.Command{
		Use:     "kubernetes CONFIG",
		Short:   "Write Kubernetes objects, or create them with kubectl",
		Example: "  trainctl submit kubernetes configs/mnist-ddp.toml --kind trainjob --nnodes 2 --image registry.example/trainctl:1 > job.yaml",
	}
	f := cmd.Flags()
	f.StringVar(&kind, "kind", kind, "write a `KIND`: jobset, trainjob or pytorchjob")
	f.StringVar(&j.Image, "image", "trainctl", "run the container `IMAGE`")
	f.StringVar(&j.Namespace, "namespace", "default", "create the objects in `NAMESPACE`")
	f.StringVar(&j.Claim, "claim", "", "mount the PersistentVolumeClaim `NAME` at /data, for runs and data sets")
	f.IntVar(&j.Metrics, "metrics-port", 9100, "serve metrics and readiness on port `N`")
	node(f, &j, "a pod that is stopped has this `TIME` to save")
	return writer(cmd, p, &j, func() string { return kind }, "kubectl", "create", "-f", "-")
}

func mpiCommand(p *cli.Program) *cobra.Command {
	var j submit.Job
	cmd := &cobra.Command{
		Use:     "mpi CONFIG",
		Short:   "Write a script for mpirun, or run it",
		Example: "  trainctl submit mpi configs/mnist-ddp.toml --nnodes 2 --nproc-per-node 4 > job.sh",
	}
	cmd.Flags().StringVar(&j.Mpirun, "mpirun", "mpirun", "start ranks with `COMMAND`")
	return writer(cmd, p, &j, func() string { return "mpi" }, "sh", "-s")
}

// node adds the flags of a node: what it has, and how long its ranks may save.
func node(f *pflag.FlagSet, j *submit.Job, usage string) {
	f.IntVar(&j.CPUs, "cpus", 0, "`N` cores on each node")
	f.IntVar(&j.GPUs, "gpus", 0, "`N` GPUs on each node")
	f.DurationVar(&j.Grace, "grace", 2*time.Minute, usage)
}

// writer completes a command that writes j, or with --run gives it to a program.
func writer(cmd *cobra.Command, p *cli.Program, j *submit.Job, target func() string, program ...string) *cobra.Command {
	run := cmd.Flags().Bool("run", false, "submit it with "+program[0])
	cmd.Flags().StringVar(&j.Program, "program", "trainctl", "the path of trainctl where the job runs is `PATH`")
	flags := &cli.ConfigFlags{Endpoint: func(c launch.Config) string { return fmt.Sprint("node0:", submit.Meeting(c.Ports())) }}
	return p.WithFlags(cmd, flags, func(cmd *cobra.Command, c *config.Config) error {
		if submit.Targets[target()] == "" {
			return cli.UsageOf(cmd, "--kind %s: write jobset, trainjob or pytorchjob", target())
		}
		if err := describe(j, cmd, c); err != nil {
			return err
		}
		var text bytes.Buffer
		if err := submit.Write(&text, target(), *j); err != nil {
			return err
		}
		if !*run {
			_, err := cmd.OutOrStdout().Write(text.Bytes())
			return err
		}
		e := exec.CommandContext(cmd.Context(), program[0], program[1:]...)
		e.Stdin, e.Stdout, e.Stderr = &text, cmd.OutOrStdout(), cmd.ErrOrStderr()
		if err := e.Run(); err != nil {
			return fmt.Errorf("%s: %w; without --run the job is only written", strings.Join(program, " "), err)
		}
		return nil
	})
}

// ownLine reports whether a flag is not passed on because the job's own lines have it: they find out where
// node 0 is, but not where etcd is.
func ownLine(flag string, etcd bool) bool {
	return flag == "nnodes" || flag == "node-rank" || flag == "rdzv-endpoint" && !etcd
}

// describe completes a job from the configuration and the flags that override it.
func describe(j *submit.Job, cmd *cobra.Command, c *config.Config) error {
	var shared cobra.Command
	new(cli.ConfigFlags).Register(&shared)
	j.Name, j.Config, j.Args = c.Run.Name, cmd.Flags().Arg(0), nil
	j.Etcd, j.Ports = c.Launch.UsesEtcd(), c.Launch.Ports()
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if shared.Flags().Lookup(f.Name) == nil || ownLine(f.Name, j.Etcd) {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			j.Args = append(j.Args, "--"+f.Name, v)
		}
	})
	low, high, ranged := strings.Cut(c.Launch.Nnodes.String(), ":")
	j.MinNodes, _ = strconv.Atoi(low) // it has been checked
	j.MaxNodes = j.MinNodes
	if ranged {
		j.MaxNodes, _ = strconv.Atoi(high)
	}
	if !c.Launch.NprocPerNode.IsAuto() {
		j.Nproc = c.Launch.NprocPerNode.Int()
	}
	if j.Image == "" {
		return nil
	}
	text, err := os.ReadFile(j.Config)
	if err != nil {
		return cli.Usagef("the configuration goes into a ConfigMap: %v", err)
	}
	j.Text, j.Config, j.Secret = string(text), "/etc/trainctl/job.toml", secret.New().Reveal()
	return nil
}
