// Command trainctl trains models on several ranks from one TOML file.
//
// Each command has its own file, and a family of commands its own package, such as
// cmd/trainctl/internal/ckpt; what they share is in cmd/trainctl/internal/cli. Commands
// parse flags and print; core does the work. The same executable serves the built-in
// plugins when it is started as "plugin KIND NAME".
//
// It imports core, internal/builtins, plugins and cmd/trainctl/internal; nothing imports it. Start
// with root.go, which lists the commands.
package main
