// Package sandbox starts a plugin in a process that reads only the files it needs,
// writes none and has no network. Linux enforces it, by Landlock and a seccomp filter.
//
// The host executes itself with the arguments of [Command]; that process calls [Enter],
// which restricts it and executes the plugin in its place.
//
// It imports nothing else of this module. Start with sandbox.go.
package sandbox
