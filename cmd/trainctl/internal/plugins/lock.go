package plugins

import (
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/afero"
	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

func lockCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "lock CONFIG",
		Short: "Write the checksums of plugins given by path into a configuration",
		Long: `Write the SHA-256 sum of every plugin that CONFIG gives by path to sha256 in the
plugin's table; nothing else in the file changes, and no plugin is started. From
then on, trainctl does not start a plugin with another sum. Built-in plugins need
no sum: they are part of trainctl.`,
		Example: "  trainctl plugins lock train.toml",
		Args:    cli.Exactly("CONFIG"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := filepath.EvalSymlinks(args[0])
			if err != nil {
				return cli.Usagef("%v; plugins lock changes a file", err)
			}
			fsys := checkpoint.OsFS()
			text, err := afero.ReadFile(fsys, path)
			if err != nil {
				return cli.Unreadable(err)
			}
			locked, tables, err := config.Lock(args[0], text, func(kind, path string) (string, error) {
				return host.Checksum(sdk.Kind(kind), path)
			})
			if err != nil {
				return err
			}
			if string(locked) != string(text) {
				if err := checkpoint.Replace(fsys, path, func(w io.Writer) error { _, err := w.Write(locked); return err }); err != nil {
					return err
				}
			}
			return lockReport(cmd.OutOrStdout(), args[0], tables)
		},
	}
}

func lockReport(w io.Writer, path string, tables []config.PluginTable) error {
	if len(tables) == 0 {
		_, err := fmt.Fprintf(w, "%s: nothing to lock, no plugin is given by path\n", path)
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
		Long: `Compare the checksums of plugins given by path with those in CONFIG, start every
plugin of CONFIG briefly, and check its options against those that it publishes.
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
	for _, t := range c.PluginTables() {
		name := t.Plugin
		if t.Kind == string(sdk.KindBackend) {
			name = app.Backend(c)
		}
		began := time.Now()
		info, err := p.Host.WithChecksums(map[string]string{name: t.SHA256}).Probe(cmd.Context(), sdk.Kind(t.Kind), name)
		if err != nil {
			return nil, err
		}
		info.Options = nil
		list = append(list, verified{describePlugin(info, pathOf(name)), name, t.SHA256, float64(time.Since(began).Microseconds()) / 1e3})
	}
	return list, nil
}

func (v verified) lock() string {
	switch {
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
	return fmt.Sprintf("%s: no sha256 for %v, so any file would be started; fix: run trainctl plugins lock %s", e.config, e.plugins, usererr.Shell(e.config))
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
