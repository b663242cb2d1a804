// Package builtins lists the plugins that trainctl serves itself.
//
// It imports plugins, core/sdk and core/plugin/host. Start with builtins.go.
package builtins
