// Package tempdir creates the temporary directories for plugins' sockets and removes
// them, including those of processes that were killed.
//
// It imports nothing else of this module. Start with tempdir.go.
package tempdir
