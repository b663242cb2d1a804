// Command trainctl trains models on several ranks from one TOML file. The same executable serves the built-in
// plugins when it is started as "plugin KIND NAME".
//
// It imports cmd/trainctl/command, by which other programs serve the same commands; nothing imports it. The commands
// are in cmd/trainctl/internal/commands.
package main
