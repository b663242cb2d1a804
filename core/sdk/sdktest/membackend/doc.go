// Package membackend is a backend whose ranks are goroutines of one process.
// It says in the plainest way what the collectives mean: tests use it in place
// of a plugin, and the conformance suite takes its arithmetic as reference.
//
// It imports core/contract, core/sdk and core/tensor. Start with membackend.go.
package membackend
