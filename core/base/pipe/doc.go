// Package pipe reads the pipes of processes that have ended.
//
// It imports nothing else of this module. Start with pipe.go.
package pipe
