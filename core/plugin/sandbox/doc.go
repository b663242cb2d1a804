// Package sandbox starts a plugin in a process that writes only where it needs to, and has
// no network unless it needs one. Linux enforces it, by Landlock and a seccomp filter.
//
// The host executes itself with the arguments of [Command]; that process calls [Enter],
// which restricts it and executes the plugin in its place.
//
// It imports core/base/pattern. Start with sandbox.go.
package sandbox
