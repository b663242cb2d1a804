// Package crash reads what Go's runtime prints as a process dies of a panic, a
// fatal error or a signal, and keeps of it what people need: the message, the
// signal, and where it happened. Registers and the stacks of other goroutines
// are for the log.
//
// It imports nothing else of this module. Start with crash.go.
package crash
