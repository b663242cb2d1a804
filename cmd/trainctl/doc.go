// Command trainctl trains models on several ranks from one TOML file.
//
// Each command has its own file. Commands parse flags and print; the work is
// done by [services]. The same executable serves the built-in plugins when it
// is started as "plugin KIND NAME".
//
// It imports core, plugins and cmd/trainctl/internal; nothing imports it. Start
// with root.go, which lists the commands.
package main
