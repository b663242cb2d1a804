// Package pipe reads the pipes of processes that have ended.
//
// It imports core/base/system, where builds for Windows stop. Start with pipe.go.
package pipe
