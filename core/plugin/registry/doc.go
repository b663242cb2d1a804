// Package registry finds the executables of plugins on this machine and verifies their
// checksums. It starts none.
//
// It imports core/base/similar, core/base/usererr and core/sdk. Start with search.go.
package registry
