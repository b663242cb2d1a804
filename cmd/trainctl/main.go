package main

import (
	"context"
	"os"
	"time"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/job/secret"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/internal/builtins"
)

func main() {
	started := time.Now()
	secret.TakeRdzvPassword()
	secret.Take() // removes it from the environment before any child process could inherit it
	all := builtins.List()
	host.ServeBuiltin(all, os.Args[1:])
	os.Exit(execute(context.Background(), cli.NewProgram(started, all), os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}))
}
