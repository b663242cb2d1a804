// Package lossy keeps outputs that stop taking data from stopping who writes to
// them. A pager that nobody pages, Ctrl-S, a stalled ssh, a pipe without a
// reader: a write to any of them may block for ever, and with it whoever trains,
// supervises or answers signals.
//
// It imports nothing else of this module. Start with lossy.go.
package lossy
