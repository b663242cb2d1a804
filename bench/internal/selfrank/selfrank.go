package selfrank

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	tcp "github.com/trainctl/trainctl/plugins/backend-tcp"
)

// Builtins are the plugins of the program.
var Builtins = []host.Builtin{
	{Kind: sdk.KindBackend, Name: "tcp", Plugin: sdk.Plugin{Backend: func() sdk.Backend { return tcp.New() }}},
}

// RankArg is the argument that makes the program a rank.
const RankArg = "rank"

// Program starts this executable as a rank.
func Program() (bench.Program, error) {
	exe, err := os.Executable()
	return bench.Program{Exe: exe, Args: []string{RankArg}, Builtins: Builtins}, err
}

// Main is the program's main function: a plugin, a rank, or run with the program's arguments, whose
// error ends it with exit code 1. SIGINT and SIGTERM cancel the context.
func Main(name string, run func(ctx context.Context, args []string) error) {
	args := os.Args[1:]
	host.ServeBuiltin(Builtins, args)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) == 1 && args[0] == RankArg {
		run = rank
	}
	if err := run(ctx, args); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func rank(ctx context.Context, _ []string) error {
	launch.WatchLifeline(nil)
	return bench.Rank(ctx, bench.Program{Builtins: Builtins}, os.Stdout)
}
