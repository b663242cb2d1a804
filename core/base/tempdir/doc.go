// Package tempdir makes the temporary directories of plugins' sockets and removes them, those of
// processes that were killed as well.
//
// It imports nothing else of this module. Start with tempdir.go.
package tempdir
