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

// shortcuts are flags that stand for one key.
var shortcuts = []struct{ flag, key, usage string }{
	{"nproc-per-node", "launch.nproc_per_node", "start `N` ranks on this machine, or auto"},
	{"nnodes", "launch.nnodes", "`N` machines take part"},
	{"node-rank", "launch.node_rank", "this machine is number `R` of them, from 0"},
	{"rdzv-endpoint", "launch.rdzv_endpoint", "machines meet at `HOST:PORT`, an address of number 0"},
	{"max-restarts", "launch.max_restarts", "start all ranks again up to `N` times after a failure"},
	{"run-dir", "run.dir", "put runs under `DIR`"},
}

func (f *configFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "override a key by `KEY=VALUE`, as train.epochs=3; repeatable")
	for _, s := range shortcuts {
		cmd.Flags().String(s.flag, "", s.usage)
	}
}

// load reads the configuration with everything that overrides it, for a machine
// whose instructions are those that the environment asks for.
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

// checkLevel reports that the environment asks for instructions that this CPU lacks,
// before a kernel has to.
func checkLevel() error {
	if _, err := kernel.Active(); err != nil {
		return usagef("%v", err)
	}
	return nil
}

// unreadable makes a file that cannot be read a mistake of the command line.
func unreadable(err error) error {
	if config.Diagnostics(err) != nil {
		return err
	}
	return usagef("%v", err)
}

// warn prints what does not stop the command.
func warn(cmd *cobra.Command, c *config.Config) {
	if len(c.Warnings) > 0 {
		w := cmd.ErrOrStderr()
		_ = config.Render(w, c.Warnings, colorful(w))
	}
}
