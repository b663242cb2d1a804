// Package lossy keeps a blocked output from blocking the program that writes to it.
// A write to a waiting pager, a terminal after Ctrl-S, a stalled ssh or a pipe that
// is not read may block for ever, and would stop training, supervision and signal
// handling.
//
// It imports nothing else of this module. Start with lossy.go.
package lossy
