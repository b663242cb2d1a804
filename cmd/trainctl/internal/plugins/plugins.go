package plugins

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/sdk"
)

// Command returns trainctl plugins.
func Command(p *cli.Program) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "plugins",
		Short: "List, install, check, lock, test and create plugins",
	}, listCommand(p), infoCommand(p), installCommand(p), removeCommand(), verifyCommand(p), lockCommand(p), bundleCommand(p), newCommand(), testCommand(p), traceCommand(p), suiteCommand(p))
}

func listCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the plugins that a configuration can name",
		Long: `List the built-in plugins, and those found by name: executables such as
trainctl-dataset-mine in the folders of TRAINCTL_PLUGIN_PATH, among the installed
plugins, in the active virtual environment of Python, and beside trainctl. Those
that are not built in are started briefly.`,
		Example: "  trainctl plugins list",
		Args:    cli.Exactly(),
	}
	show := cli.JSONFlag(cmd, "one JSON array")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list := listed(cmd.Context(), p.Host)
		return show(list, func(w io.Writer) error { return pluginTable(w, list) })
	}
	return cmd
}

func pluginTable(w io.Writer, list []pluginInfo) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "KIND\tNAME\tVERSION\tFROM\tSHA-256\tSUMMARY")
	for _, p := range list {
		from, summary := p.From, p.Summary
		if p.Path != "" {
			from += ", " + p.Path
		}
		if p.Error != "" {
			summary = "cannot be used: " + p.Error
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", p.Kind, p.Name, cmp.Or(p.Version, "?"), from, cmp.Or(p.SHA256[:min(12, len(p.SHA256))], "-"), summary)
	}
	return tw.Flush()
}

func infoCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "info NAME",
		Short:   "Start a plugin and print the options it publishes",
		Example: "  trainctl plugins info tcp\n  trainctl plugins info ./my-backend --kind backend",
		Args:    cli.Exactly("NAME"),
	}
	kind := cmd.Flags().String("kind", "", "`KIND` of plugin if the name is ambiguous: "+registry.KindNames())
	show := cli.JSONFlag(cmd, "one JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := knownKind(*kind); err != nil {
			return err
		}
		info, err := findPlugin(cmd.Context(), p.Host, *kind, args[0])
		if err != nil {
			return err
		}
		return show(info, info.text)
	}
	return cmd
}

// knownKind checks the value of --kind.
func knownKind(kind string) error {
	if kind == "" || slices.Contains(registry.Kinds, sdk.Kind(kind)) {
		return nil
	}
	return cli.Usagef("--kind %q: use %s", kind, registry.KindNames())
}

func (p pluginInfo) text(w io.Writer) error {
	fmt.Fprintf(w, "%s %s %s: %s\n", p.Kind, p.Name, p.Version, p.Summary)
	if p.Offers != "" {
		fmt.Fprintf(w, "  %s\n", p.Offers)
	}
	if p.Sandbox != "" {
		fmt.Fprintf(w, "  sandbox: %s\n", p.Sandbox)
	}
	for _, k := range p.Also {
		fmt.Fprintf(w, "  it is also %s plugin: --kind %s\n", sdk.Kind(k).Phrase(), k)
	}
	for _, o := range p.Options {
		notes := o.Type
		for _, n := range []struct{ name, value string }{{"default ", o.Default}, {"in ", o.Unit}, {"", o.Limits}} {
			if n.value != "" {
				notes += ", " + n.name + n.value
			}
		}
		if _, err := fmt.Fprintf(w, "\n  %s (%s)\n      %s\n", o.Name, notes, strings.TrimSpace(o.Doc)); err != nil {
			return err
		}
	}
	return nil
}
