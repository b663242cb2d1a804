package ui

import (
	"fmt"
	"net"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/report/ui"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/internal/builtins"
)

// Command returns "trainctl ui".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ui [DIR]",
		Short: "Serve a page that lists, compares and follows runs",
		Long: `Serve the runs in DIR (default: runs) to a browser on this machine: a list with tags and
notes, the page of trainctl report for any of them, which follows running ones, their
logs, and buttons that save a checkpoint or stop a run. The address that is printed has
a token, without which nothing is answered. Interrupt it to end; runs are not affected.`,
		Example: `  trainctl ui
  ssh -L 8080:127.0.0.1:8080 cluster trainctl -C project ui --listen 127.0.0.1:8080`,
		Args: func(cmd *cobra.Command, args []string) error {
			return cli.Exactly([]string{"DIR"}[:min(1, len(args))]...)(cmd, args)
		},
	}
	listen := cmd.Flags().String("listen", "127.0.0.1:0", "listen at `ADDRESS`: host and port, port 0 is a free one")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir := append(args, cli.DefaultRuns)[0]
		if !cli.IsDir(checkpoint.OsFS(), dir) {
			return cli.Usagef("%s is not a folder; fix: give the folder of all runs, as [run] dir or --run-dir names it", dir)
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *listen)
		if err != nil {
			return cli.Usagef("--listen: %v", err)
		}
		s := ui.New(ui.Options{FS: checkpoint.OsFS(), Dir: dir, Version: cli.Version(), Plugins: builtins.Infos()})
		if addr, ok := l.Addr().(*net.TCPAddr); ok && !addr.IP.IsLoopback() {
			fmt.Fprintf(cmd.ErrOrStderr(), `warning: %s can be reached from other machines, without encryption. Whoever learns the token can read all
runs in %s, their configurations and logs, and can stop them. fix: listen on 127.0.0.1, and reach it with ssh -L
`, addr, dir)
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), s.Address(l.Addr())); err != nil {
			return err
		}
		return s.Serve(ctx, l)
	}
	return cmd
}
