// Package membackend is a backend whose ranks are goroutines of one process. It implements the
// collectives in the simplest way: tests use it in place of a plugin, and the conformance suite
// takes its arithmetic as reference.
//
// It imports core/contract, core/sdk and core/tensor. Start with membackend.go.
package membackend
