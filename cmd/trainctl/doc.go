// Command trainctl trains models on several ranks from one TOML file.
//
// Each command has a file of its own; what the commands do beyond parsing
// their flags and printing comes in through [services]. The same executable
// serves the built-in plugins, started again as "plugin KIND NAME".
//
// It imports core and plugins; nothing imports it. Start with root.go, which
// lists the commands.
package main
