// Package loopback connects the two ends of a test. Nothing but tests imports it.
//
// It imports nothing else of this module. Start with loopback.go.
package loopback
