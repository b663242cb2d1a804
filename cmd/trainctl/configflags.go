package main

import (
	"os"

	"github.com/spf13/afero"
	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/engine/kernel"
)

// configFlags are the flags that change the configuration.
type configFlags struct{ set []string }

// shortcuts are flags that set one key.
var shortcuts = []struct{ flag, key, usage string }{
	{"nproc-per-node", "launch.nproc_per_node", "start `N` ranks on this machine, or auto"},
	{"nnodes", "launch.nnodes", "run on `N` machines"},
	{"node-rank", "launch.node_rank", "this machine has node rank `R`, from 0"},
	{"rdzv-endpoint", "launch.rdzv_endpoint", "rendezvous at `HOST:PORT`, an address of node 0"},
	{"max-restarts", "launch.max_restarts", "restart all ranks up to `N` times after a failure"},
	{"run-dir", "run.dir", "put runs under `DIR`"},
}

func (f *configFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "override a key by `KEY=VALUE`, such as train.epochs=3; repeatable")
	for _, s := range shortcuts {
		cmd.Flags().String(s.flag, "", s.usage)
	}
}

// load reads the configuration with all overrides, after it has checked that this
// CPU has the instructions that the environment selects.
func (f *configFlags) load(cmd *cobra.Command, s *services, path string) (*config.Config, error) {
	if err := checkLevel(); err != nil {
		return nil, err
	}
	o := config.LoadOptions{Set: f.set, Env: os.LookupEnv, Stdin: cmd.InOrStdin()}
	for _, sc := range shortcuts {
		if fl := cmd.Flags().Lookup(sc.flag); fl != nil && fl.Changed {
			o.Flags = append(o.Flags, config.Override{Key: sc.key, Value: fl.Value.String(), Flag: "--" + sc.flag})
		}
	}
	if s.CheckPlugin != nil {
		check, done := s.CheckPlugin()
		defer done()
		o.Check = check
	}
	c, err := config.Load(afero.NewOsFs(), path, o)
	if err != nil {
		return nil, unreadable(err)
	}
	return c, nil
}

// checkLevel returns an error if the environment selects instructions that this CPU
// lacks, before a kernel fails.
func checkLevel() error {
	if _, err := kernel.Active(); err != nil {
		return usagef("%v", err)
	}
	return nil
}

// unreadable turns the error of a file that cannot be read into a usage error.
func unreadable(err error) error {
	if config.Diagnostics(err) != nil {
		return err
	}
	return usagef("%v", err)
}

// warn prints warnings, which do not stop the command.
func warn(cmd *cobra.Command, c *config.Config) {
	if len(c.Warnings) > 0 {
		w := cmd.ErrOrStderr()
		_ = config.Render(w, c.Warnings, colorful(w))
	}
}
