// Package commands has the commands of trainctl. Each has its own file, and a family of commands its own package,
// such as cmd/trainctl/internal/ckpt; what they share is in cmd/trainctl/internal/cli. Commands parse flags and print;
// core does the work.
//
// It imports core, plugins and cmd/trainctl/internal. Start with root.go, which lists the commands.
package commands
