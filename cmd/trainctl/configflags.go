package main

import (
	"maps"
	"os"
	"strings"

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
	check, done := s.CheckPlugin()
	defer done()
	o.Check = check
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

// withConfig completes a command of one configuration file: it adds the flags that
// override keys, and calls run with the loaded configuration after its warnings were
// printed.
func withConfig(cmd *cobra.Command, s *services, run func(cmd *cobra.Command, c *config.Config) error) *cobra.Command {
	var flags configFlags
	flags.register(cmd)
	cmd.Args = exactly("CONFIG")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := flags.load(cmd, s, args[0])
		if err != nil {
			return err
		}
		warn(cmd, c)
		return run(cmd, c)
	}
	return cmd
}

// parseOptions parses --set KIND.options.KEY=VALUE, with values as in the file,
// and --set KIND.options={KEY = VALUE}.
func parseOptions(kind string, sets []string) (map[string]any, error) {
	out := map[string]any{}
	for _, s := range sets {
		key, text, ok := strings.Cut(s, "=")
		name, known := strings.CutPrefix(strings.TrimSpace(key), kind+".options")
		name, dotted := strings.CutPrefix(name, ".")
		if !ok || !known || dotted != (name != "") {
			return nil, usagef("--set %q: write --set %s.options.KEY=VALUE", s, kind)
		}
		value, err := config.ParseValue(strings.TrimSpace(text))
		if err != nil {
			return nil, usagef("--set %q: %v", s, err)
		}
		table, isTable := value.(map[string]any)
		switch {
		case dotted:
			out[name] = value
		case isTable:
			maps.Copy(out, table)
		default:
			return nil, usagef("--set %q: %s.options is a table: write {KEY = VALUE}", s, kind)
		}
	}
	return out, nil
}
