package command

import (
	"context"
	"os"
	"time"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/cmd/trainctl/internal/commands"
	"github.com/trainctl/trainctl/core/job/secret"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/internal/builtins"
)

// Main runs the command of trainctl that the arguments of this process name, and exits with its code. The configuration
// names plugins by the Name of their Info; they come before built-in ones of that name.
//
// Call it first in main, after custom.Register: ranks and plugins are processes of the same executable, which run main up
// to this call.
func Main(plugins ...sdk.Plugin) {
	started := time.Now()
	secret.TakeRdzvPassword()
	secret.Take() // removes it from the environment before any child process could inherit it
	all := append(served(plugins), builtins.List()...)
	host.ServeBuiltin(all, os.Args[1:])
	os.Exit(commands.Execute(context.Background(), cli.NewProgram(started, all), os.Args[1:]))
}

// served are the plugins under their names.
func served(plugins []sdk.Plugin) (list []host.Builtin) {
	for _, p := range plugins {
		for _, kind := range p.Kinds() {
			if info, err := p.Info(kind); err == nil { // it serves this kind
				list = append(list, host.Builtin{Kind: kind, Name: info.Name, Plugin: p})
			}
		}
	}
	return list
}
