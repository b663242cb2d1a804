// Package registry finds the executables of plugins on this machine and verifies their
// checksums. It starts none.
//
// It imports core/base/usererr alone. Start with file.go.
package registry
