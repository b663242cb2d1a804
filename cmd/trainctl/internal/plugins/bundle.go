package plugins

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/base/durable"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/plugin/install"
	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

func bundleCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bundle CONFIG",
		Short: "Write an archive with the plugins that a configuration names",
		Long: `Write an archive with every plugin that CONFIG gives by name, for machines that
cannot reach the plugins' sources: trainctl plugins install FILE installs all of
them there. If trainctl.lock is beside CONFIG, they are those that it locks. Plugins
given by path and built-in ones are not part of it.`,
		Example: "  trainctl plugins bundle train.toml --out plugins.tar.gz",
		Args:    cli.Exactly("CONFIG"),
	}
	out := cmd.Flags().String("out", "trainctl-plugins.tar.gz", "write the archive to `FILE`")
	force := cmd.Flags().Bool("force", false, "replace the file if it exists")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text, err := configText(args[0])
		if err != nil {
			return err
		}
		lock, err := config.ReadLock(checkpoint.OsFS(), args[0])
		if err != nil {
			return err
		}
		list, err := namedPlugins(p.Host, args[0], text, lock)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return cli.Usagef("%s: no plugin is given by name, so there is nothing to bundle", args[0])
		}
		if err := cli.Writable(*out, *force); err != nil {
			return err
		}
		plugins := make([]registry.Plugin, len(list))
		for i := range list {
			plugins[i] = list[i].found
		}
		if err := durable.Write(checkpoint.OsFS(), *out, func(w io.Writer) error { return install.Bundle(w, plugins) }); err != nil {
			return err
		}
		for i := range plugins {
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", *out, plugins[i].ID())
		}
		return nil
	}
	return cmd
}
