// Package crash parses what Go's runtime prints when a process dies of a panic, a
// fatal error or a signal, and extracts the message, the signal, and where it
// happened. It skips registers and the stacks of other goroutines.
//
// It imports core/base/pattern. Start with crash.go.
package crash
