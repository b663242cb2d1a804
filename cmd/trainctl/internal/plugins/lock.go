package plugins

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/afero"
	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/base/durable"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/plugin/install"
	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// configText is the text of a configuration.
func configText(path string) ([]byte, error) {
	text, err := afero.ReadFile(checkpoint.OsFS(), path)
	if err != nil {
		err = cli.Usagef("reading the configuration: %v; fix: give the path of a TOML file", err)
	}
	return text, err
}

func lockCommand(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "lock CONFIG",
		Short: "Write down the checksums of the plugins of a configuration",
		Long: `Write the SHA-256 sum of every plugin that CONFIG gives by path to sha256 in the
plugin's table; nothing else in the file changes. Write versions and sums of those
that it gives by name to trainctl.lock beside it, in which other platforms have sums
of their own: run the command on a machine of each. No plugin is started. From then
on, trainctl does not start a plugin with another sum. Built-in plugins need no
sum: they are part of trainctl.`,
		Example: "  trainctl plugins lock train.toml",
		Args:    cli.Exactly("CONFIG"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := filepath.EvalSymlinks(args[0])
			if err != nil {
				return cli.Usagef("reading the configuration: %v; fix: give the path of a TOML file, which plugins lock changes", err)
			}
			text, err := configText(path)
			if err != nil {
				return err
			}
			locked, tables, err := config.Lock(args[0], text, func(kind, path string) (string, error) {
				return host.Checksum(sdk.Kind(kind), path)
			})
			if err != nil {
				return err
			}
			named, err := lockNamed(p.Host, args[0], text) // beside args[0], where a run looks, even if that is a link
			if err != nil {
				return err
			}
			if err := replace(path, text, locked); err != nil {
				return err
			}
			return lockReport(cmd.OutOrStdout(), args[0], append(tables, named...))
		},
	}
}

// replace writes a file if its content changes.
func replace(path string, old, text []byte) error {
	if string(text) == string(old) {
		return nil
	}
	return durable.Replace(checkpoint.OsFS(), path, text)
}

// lockNamed writes the sums of plugins given by name to the lock file beside a
// configuration, whose text is given.
func lockNamed(h *host.Host, path string, text []byte) (tables []config.PluginTable, err error) {
	plugins, err := namedPlugins(h, path, text, nil)
	if err != nil || len(plugins) == 0 {
		return nil, err
	}
	lock, file := new(registry.Lock), config.LockPath(path)
	old, err := afero.ReadFile(checkpoint.OsFS(), file)
	if err == nil {
		lock, err = registry.ParseLock(old)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, p := range plugins {
		e, err := install.Entry(&p.found)
		if err != nil {
			return nil, err
		}
		e.Kind, e.Name = sdk.Kind(p.Kind), p.Plugin
		lock.Set(e)
		p.SHA256 = e.Sums[registry.Platform()]
		tables = append(tables, p.PluginTable)
	}
	changed, err := lock.Text()
	if err != nil {
		return nil, err
	}
	return tables, replace(file, old, changed)
}

// named is a plugin that a configuration gives by name, and where it was found.
type named struct {
	config.PluginTable
	found registry.Plugin
}

// namedPlugins finds the plugins that the text of a configuration gives by name, without
// those that are built in: of those in the lock, if it is not nil, the locked version with the
// locked sum.
func namedPlugins(h *host.Host, path string, text []byte, lock *registry.Lock) (list []named, err error) {
	tables, err := config.Named(path, text)
	for _, t := range tables {
		k := host.Key{Kind: sdk.Kind(t.Kind), Plugin: t.Plugin}
		if t.Plugin == "auto" || h.BuiltIn(k.Kind, k.Plugin) {
			continue
		}
		l := lock.Of(k.Kind, k.Plugin)
		found, err := h.WithTerms(map[host.Key]host.Terms{k: {Version: t.Version, Lock: l}}).Find(k.Kind, k.Plugin)
		if err == nil && l != nil {
			err = verifyLocked(&found, l)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, named{t, found})
	}
	return list, err
}

// verifyLocked compares a plugin's files with the lock.
func verifyLocked(p *registry.Plugin, l *registry.Locked) error {
	sum, err := l.Sum(registry.Platform())
	if err != nil {
		return fmt.Errorf("%s: %w", p.Path, err)
	}
	f, err := p.OpenTree(sum)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Path, err)
	}
	return f.Close()
}

func lockReport(w io.Writer, path string, tables []config.PluginTable) error {
	if len(tables) == 0 {
		_, err := fmt.Fprintf(w, "%s: nothing to lock, all plugins are built in\n", path)
		return err
	}
	for _, t := range tables {
		if _, err := fmt.Fprintf(w, "%s: %s %s locked to %s\n", path, t.Kind, t.Plugin, t.SHA256); err != nil {
			return err
		}
	}
	return nil
}

func verifyCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify CONFIG",
		Short: "Compare checksums, start every plugin once, and show its capabilities",
		Long: `Compare the checksums of plugins given by path with those in CONFIG, and of those
given by name with trainctl.lock. Start every plugin of CONFIG briefly, and check
its options against those that it publishes.
The exit code is 3 if a plugin is missing, has another sum or none, or does not
speak the protocol.`,
		Example: "  trainctl plugins verify train.toml",
	}
	show := cli.JSONFlag(cmd, "one JSON array")
	return p.WithConfig(cmd, func(cmd *cobra.Command, c *config.Config) error {
		list, err := verifyPlugins(cmd, p, c)
		if err != nil {
			return err
		}
		if err := show(list, func(w io.Writer) error { return verifyTable(w, list) }); err != nil {
			return err
		}
		return unlocked(c.Path, list)
	})
}

// verified is a plugin of a configuration that passed.
type verified struct {
	pluginInfo
	Plugin    string  `json:"plugin"`           // as in the file
	SHA256    string  `json:"sha256,omitempty"` // that was compared
	Handshake float64 `json:"handshake_ms"`
}

// verifyPlugins starts the plugins one after the other. For backend "auto" it
// starts the one that a run on this machine would use.
func verifyPlugins(cmd *cobra.Command, p *cli.Program, c *config.Config) (list []verified, err error) {
	h := p.Host.WithTerms(c.Terms())
	for _, t := range c.PluginTables() {
		name := t.Plugin
		if t.Kind == string(sdk.KindBackend) {
			name = app.Backend(c)
		}
		began := time.Now()
		info, err := h.Probe(cmd.Context(), sdk.Kind(t.Kind), name)
		if err != nil {
			return nil, err
		}
		info.Options = nil
		sum := t.SHA256
		if l := c.Lock.Of(sdk.Kind(t.Kind), t.Plugin); l != nil {
			sum = cmp.Or(sum, l.Sums[registry.Platform()])
		}
		v := verified{describePlugin(info, h.PathOf(sdk.Kind(t.Kind), name)), name, sum, float64(time.Since(began).Microseconds()) / 1e3}
		v.From = h.Attached(sdk.Kind(t.Kind), name)
		list = append(list, v)
	}
	return list, nil
}

func (v verified) lock() string {
	switch {
	case v.From != "":
		return "attached"
	case v.Path == "":
		return "built in"
	case v.SHA256 == "":
		return "not locked"
	}
	return "locked"
}

func verifyTable(w io.Writer, list []verified) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "KIND\tPLUGIN\tVERSION\tCHECKSUM\tHANDSHAKE\tOFFERS")
	for _, v := range list {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%.0f ms\t%s\n", v.Kind, v.Plugin, v.Version, v.lock(), v.Handshake, v.Offers)
	}
	return tw.Flush()
}

// unlockedError lists plugins without a checksum in the configuration.
type unlockedError struct {
	config  string
	plugins []string
}

func (e *unlockedError) Error() string {
	return fmt.Sprintf("%s: no checksum for %v, so any file would be started; fix: run trainctl plugins lock %s", e.config, e.plugins, usererr.Shell(e.config))
}

func (e *unlockedError) ExitCode() int { return launch.ExitPlugin }

func unlocked(path string, list []verified) error {
	e := &unlockedError{config: path}
	for _, v := range list {
		if v.lock() == "not locked" {
			e.plugins = append(e.plugins, v.Plugin)
		}
	}
	if e.plugins == nil {
		return nil
	}
	return e
}
