package main

import (
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/host"
)

// Exit codes, a promise to scripts and schedulers.
const (
	exitOK         = 0
	exitFailed     = 1 // the run failed
	exitUsage      = 2 // command line or configuration
	exitPlugin     = 3 // plugin missing, checksum or protocol
	exitRendezvous = 4 // ranks did not meet in time
	exitWorker     = 5 // a worker failed and restarts are used up
	exitCheckpoint = 6 // checkpoint unusable
	exitPreempted  = 75
)

// exitCoder is an error that knows the program's exit code.
type exitCoder interface{ ExitCode() int }

// usageError is a mistake on the command line.
type usageError struct {
	msg  string
	hint string // command whose help says more
}

func (e *usageError) Error() string { return e.msg }
func (e *usageError) ExitCode() int { return exitUsage }

func usagef(format string, args ...any) error { return &usageError{msg: fmt.Sprintf(format, args...)} }

// reported is an error whose text was already written.
type reported struct{ error }

func (e reported) Unwrap() error { return e.error }

// exitCode chooses the code for an error: its own wish first, then by kind.
func exitCode(err error) int {
	var coder exitCoder
	var plugin *host.StartError
	var bad *config.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &coder):
		return coder.ExitCode()
	case errors.As(err, &plugin):
		return exitPlugin
	case errors.As(err, &bad):
		return exitUsage
	}
	return exitFailed
}
