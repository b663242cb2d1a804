package cli

import (
	"maps"
	"os"
	"strings"

	"github.com/spf13/afero"
	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/job/launch"
)

// ConfigFlags are the flags that change the configuration.
type ConfigFlags struct {
	Endpoint func(launch.Config) string // as in config.LoadOptions

	set []string
}

// shortcuts are flags that set one key.
var shortcuts = []struct{ flag, key, usage string }{
	{"nproc-per-node", "launch.nproc_per_node", "start `N` ranks on this machine, or auto"},
	{"nnodes", "launch.nnodes", "run on `N` machines"},
	{"node-rank", "launch.node_rank", "this machine has node rank `R`, from 0"},
	{"rdzv-backend", "launch.rdzv_backend", "rendezvous `NAME`: builtin or etcd"},
	{"rdzv-endpoint", "launch.rdzv_endpoint", "rendezvous at `HOST:PORT`, an address of node 0 or of etcd"},
	{"max-restarts", "launch.max_restarts", "restart all ranks up to `N` times after a failure"},
	{"run-dir", "run.dir", "put runs under `DIR`"},
}

// Register adds the flags to a command.
func (f *ConfigFlags) Register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "override a key by `KEY=VALUE`, such as train.epochs=3; repeatable")
	for _, s := range shortcuts {
		cmd.Flags().String(s.flag, "", s.usage)
	}
}

// Load reads the configuration with all overrides, after it has checked that this
// CPU has the instructions that the environment selects.
func (p *Program) Load(cmd *cobra.Command, f *ConfigFlags, path string) (*config.Config, error) {
	if err := CheckLevel(); err != nil {
		return nil, err
	}
	o := config.LoadOptions{Set: f.set, Env: os.LookupEnv, Stdin: cmd.InOrStdin(), Endpoint: f.Endpoint}
	for _, sc := range shortcuts {
		if fl := cmd.Flags().Lookup(sc.flag); fl != nil && fl.Changed {
			o.Flags = append(o.Flags, config.Override{Key: sc.key, Value: fl.Value.String(), Flag: "--" + sc.flag})
		}
	}
	check, done := p.checkPlugin()
	defer done()
	o.Check = check
	c, err := config.Load(afero.NewOsFs(), path, o)
	if err != nil {
		return nil, Unreadable(err)
	}
	return c, nil
}

// LoadSets is Load with arguments of --set that come from elsewhere than the command line.
func (p *Program) LoadSets(cmd *cobra.Command, path string, set []string) (*config.Config, error) {
	return p.Load(cmd, &ConfigFlags{set: set}, path)
}

// CheckLevel returns an error if the environment selects instructions that this CPU
// lacks, before a kernel fails.
func CheckLevel() error {
	if _, err := kernel.Active(); err != nil {
		return Usagef("%v", err)
	}
	return nil
}

// Unreadable turns the error of a file that cannot be read into a usage error.
func Unreadable(err error) error {
	if config.Diagnostics(err) != nil {
		return err
	}
	return Usagef("%v", err)
}

// Warn prints warnings, which do not stop the command.
func Warn(cmd *cobra.Command, c *config.Config) {
	if len(c.Warnings) > 0 {
		w := cmd.ErrOrStderr()
		_ = config.Render(w, c.Warnings, Colorful(w))
	}
}

// WithConfig completes a command of one configuration file: it adds the flags that
// override keys, and calls run with the loaded configuration after its warnings were
// printed.
func (p *Program) WithConfig(cmd *cobra.Command, run func(cmd *cobra.Command, c *config.Config) error) *cobra.Command {
	return p.WithFlags(cmd, new(ConfigFlags), run)
}

// WithFlags is WithConfig with flags of the caller.
func (p *Program) WithFlags(cmd *cobra.Command, flags *ConfigFlags, run func(cmd *cobra.Command, c *config.Config) error) *cobra.Command {
	flags.Register(cmd)
	cmd.Args = Exactly("CONFIG")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := p.Load(cmd, flags, args[0])
		if err != nil {
			return err
		}
		Warn(cmd, c)
		return run(cmd, c)
	}
	return cmd
}

// ParseOptions parses --set KIND.options.KEY=VALUE, with values as in the file,
// and --set KIND.options={KEY = VALUE}.
func ParseOptions(kind string, sets []string) (map[string]any, error) {
	out := map[string]any{}
	for _, s := range sets {
		key, text, ok := strings.Cut(s, "=")
		name, known := strings.CutPrefix(strings.TrimSpace(key), kind+".options")
		name, dotted := strings.CutPrefix(name, ".")
		if !ok || !known || dotted != (name != "") {
			return nil, Usagef("--set %q: write --set %s.options.KEY=VALUE", s, kind)
		}
		value, err := config.ParseValue(strings.TrimSpace(text))
		if err != nil {
			return nil, Usagef("--set %q: %v", s, err)
		}
		table, isTable := value.(map[string]any)
		switch {
		case dotted:
			out[name] = value
		case isTable:
			maps.Copy(out, table)
		default:
			return nil, Usagef("--set %q: %s.options is a table: write {KEY = VALUE}", s, kind)
		}
	}
	return out, nil
}
