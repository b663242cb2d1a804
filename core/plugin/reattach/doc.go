// Package reattach reads TRAINCTL_REATTACH, which names plugins that a person has started, for
// example in a debugger: trainctl uses these processes instead of starting others.
//
// It imports core/plugin/registry and core/sdk/pb. Start with reattach.go.
package reattach
