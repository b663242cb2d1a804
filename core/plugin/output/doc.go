// Package output reads what a plugin prints: it passes lines on to the log, limits
// floods, and keeps the last lines, the place of a crash and the stack of a hang
// for messages.
//
// It imports core/base/crash. Start with lines.go.
package output
