package plugins

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/plugin/install"
	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/sdk"
)

func installCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install SOURCE",
		Short: "Install a plugin, so that configurations can name it",
		Long: `Copy a plugin to the folder of installed plugins. SOURCE is a folder, an
executable, a .tar.gz or .zip archive, the https address of one of these files, or
a Go module as MODULE@VERSION, which the go command builds. The plugin is started
once to see its kind, name and version.

An address needs the SHA-256 sum of its file, from a place that you trust.`,
		Example: `  trainctl plugins install ./trainctl-plugin-mine
  trainctl plugins install https://example.com/mine-1.2.0.tar.gz --sha256 9f2c…
  trainctl plugins install example.com/trainctl-plugin-mine@v1.2.0`,
		Args: cli.Exactly("SOURCE"),
	}
	f := cmd.Flags()
	sum := f.String("sha256", "", "refuse a file with another SHA-256 `SUM`")
	name := f.String("name", "", "install it as `NAME`; default: its own name")
	force := f.Bool("force", false, "replace this version if it is installed already")
	show := cli.JSONFlag(cmd, "one JSON array")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := registry.Installed()
		if err != nil {
			return err
		}
		all, err := install.Install(cmd.Context(), install.Request{Source: args[0], SHA256: *sum, Name: *name, Force: *force, Dir: dir, Host: p.Host})
		if err != nil {
			return err
		}
		return show(all, func(w io.Writer) error {
			for _, r := range all {
				if err := installedText(w, &r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmd
}

func installedText(w io.Writer, r *install.Receipt) error {
	kinds := make([]string, len(r.Kinds))
	for i, kind := range r.Kinds {
		kinds[i] = string(kind)
	}
	_, err := fmt.Fprintf(w, "%s %s %s is installed in %s\nuse it with: %s plugin = %q\n", strings.Join(kinds, ", "), r.Name, r.Version, r.Path, tableFor(r.Kinds[0]), r.Name)
	return err
}

// tableFor is the header of the configuration's table for plugins of a kind.
func tableFor(kind sdk.Kind) string {
	if name := registry.Table(kind); name != string(kind) {
		return "[[" + name + "]]"
	}
	return "[" + string(kind) + "]"
}

func removeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove NAME[@VERSION]",
		Short: "Remove an installed plugin",
		Long: `Remove an installed plugin, all of its versions or one. Plugins that lie
elsewhere are not touched.`,
		Example: "  trainctl plugins remove mine@1.2.0",
		Args:    cli.Exactly("NAME"),
	}
	kind := cmd.Flags().String("kind", "", "`KIND` of plugin if several have the name: "+registry.KindNames())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := knownKind(*kind); err != nil {
			return err
		}
		dir, err := registry.Installed()
		if err != nil {
			return err
		}
		name, version, _ := strings.Cut(args[0], "@")
		removed, err := install.Remove(dir, sdk.Kind(*kind), name, version)
		for _, r := range removed {
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s removed\n", r.Name, r.Version)
		}
		return err
	}
	return cmd
}
