// Package cli has what commands of trainctl share: groups of commands, arguments, usage
// errors and exit codes, configuration flags, output as text or JSON, and the [Program]
// that commands belong to.
//
// It imports core; no package of core imports it. Families of commands, such as
// cmd/trainctl/internal/ckpt, each export one function Command and import cli, and
// cmd/trainctl lists them. Start with command.go.
package cli
