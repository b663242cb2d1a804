// Package golden compares results of tests with files of expected text. Nothing but tests
// imports it.
//
// It imports nothing else of this module. Start with golden.go.
package golden
