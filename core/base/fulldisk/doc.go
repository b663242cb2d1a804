// Package fulldisk is a file system that runs out of space, for tests.
//
// It imports nothing of ours. Start with fulldisk.go.
package fulldisk
