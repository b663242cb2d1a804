package commands

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/job/secret"
)

// environment is what env prints: everything that a bug report needs.
type environment struct {
	Version  string   `json:"version"`
	Go       string   `json:"go"`
	Platform string   `json:"platform"`
	CPUs     int      `json:"cpus"`
	Threads  int      `json:"gomaxprocs"`
	Host     string   `json:"host"`
	Starters []envSet `json:"starters"`
	Vars     []string `json:"vars"`
}

// envSet holds the variables of one launcher as found in the environment.
type envSet struct {
	Source string   `json:"source"` // "torchrun", "slurm"
	Vars   []string `json:"vars"`   // NAME=value
	Used   bool     `json:"used"`
	Why    string   `json:"why"`
	World  string   `json:"world,omitempty"` // rank and world size of this process, by the set that is used
}

func envCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "env",
		Short:   "Print version, machine and the variables that set ranks",
		Example: "  srun -n 1 trainctl env",
		Args:    cli.Exactly(),
	}
	show := cli.JSONFlag(cmd, "one JSON object")
	cmd.RunE = func(*cobra.Command, []string) error {
		e := describeEnvironment()
		return show(e, e.text)
	}
	return cmd
}

func describeEnvironment() environment {
	host, _ := os.Hostname() // empty when unknown
	e := environment{
		Version: cli.Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		CPUs: runtime.NumCPU(), Threads: runtime.GOMAXPROCS(0), Host: host,
		Starters: []envSet{}, Vars: []string{},
	}
	for _, c := range rank.Explain(os.LookupEnv) {
		e.Starters = append(e.Starters, starter(c))
	}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if ours(name) {
			e.Vars = append(e.Vars, masked(v))
		}
	}
	if given := secret.Take(); given.Source != "" { // no longer in the environment
		e.Vars = append(e.Vars, given.Source+"=(hidden)")
	}
	return e
}

func starter(c rank.Candidate) envSet {
	out := envSet{Source: c.Source, Vars: []string{}, Used: c.Winner, Why: c.Why}
	for _, v := range c.Vars {
		out.Vars = append(out.Vars, masked(v))
	}
	if c.Winner && c.Err == nil {
		out.World = c.World.String()
	}
	return out
}

// ours reports whether trainctl reads a variable.
func ours(name string) bool {
	for _, exact := range []string{"NO_COLOR", "CLICOLOR_FORCE", "CI", "TERM", "GOMAXPROCS", "OMP_NUM_THREADS"} {
		if name == exact {
			return true
		}
	}
	return strings.HasPrefix(name, "TRAINCTL_") || strings.HasPrefix(name, "PET_")
}

// masked hides the value of a secret, since users paste this output.
func masked(v string) string {
	name, _, _ := strings.Cut(v, "=")
	if strings.Contains(name, "SECRET") || strings.Contains(name, "TOKEN") || strings.Contains(name, "PASSWORD") {
		return name + "=(hidden)"
	}
	return v
}

func (e environment) text(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "trainctl\t%s\n", e.Version)
	fmt.Fprintf(tw, "go\t%s\n", e.Go)
	fmt.Fprintf(tw, "platform\t%s\n", e.Platform)
	fmt.Fprintf(tw, "host\t%s\n", e.Host)
	fmt.Fprintf(tw, "cpus\t%d, GOMAXPROCS %d\n", e.CPUs, e.Threads)
	for _, s := range e.Starters {
		mark := "not used"
		if s.Used {
			mark = "used"
		}
		fmt.Fprintf(tw, "ranks by %s\t%s: %s\n", s.Source, mark, s.Why)
		for _, v := range s.Vars {
			fmt.Fprintf(tw, "\t%s\n", v)
		}
		if s.World != "" {
			fmt.Fprintf(tw, "this process\t%s\n", s.World)
		}
	}
	for _, v := range e.Vars {
		fmt.Fprintf(tw, "variable\t%s\n", v)
	}
	return tw.Flush()
}
