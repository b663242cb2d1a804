package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// environment is what env prints: all that a bug report needs.
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

func envCommand(s *services) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "env",
		Short:   "Print version, machine and what the environment says about ranks",
		Example: "  srun -n 1 trainctl env",
		Args:    exactly(),
	}
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		e := describeEnvironment(s)
		if *asJSON {
			return writeJSON(cmd.OutOrStdout(), e)
		}
		return e.text(cmd.OutOrStdout())
	}
	return cmd
}

func describeEnvironment(s *services) environment {
	host, _ := os.Hostname() // empty when unknown
	e := environment{
		Version: version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		CPUs: runtime.NumCPU(), Threads: runtime.GOMAXPROCS(0), Host: host,
		Starters: []envSet{}, Vars: []string{},
	}
	if s.Environment != nil {
		e.Starters = s.Environment()
	}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if ours(name) {
			e.Vars = append(e.Vars, masked(v))
		}
	}
	return e
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

// masked hides the value of a secret: the output is meant to be pasted.
func masked(v string) string {
	name, _, _ := strings.Cut(v, "=")
	if strings.Contains(name, "SECRET") || strings.Contains(name, "TOKEN") {
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
		if s.Winner {
			mark = "used"
		}
		fmt.Fprintf(tw, "ranks by %s\t%s: %s %s\n", s.Source, mark, s.Why, strings.Join(s.Vars, " "))
	}
	for _, v := range e.Vars {
		fmt.Fprintf(tw, "variable\t%s\n", v)
	}
	return tw.Flush()
}
