// Package clib has what backends need that call a C library: one thread for all of its
// calls (thread.go), and waits that poll it and can be ended (poll.go).
//
// It imports nothing else of this module. Start with thread.go.
package clib
