// Package sdktest holds the conformance suites: what the core relies on, as
// tests that a plugin's own test calls in a few lines.
//
// It imports core/base, core/contract, core/engine/graph, core/engine/op, core/plugin/host,
// core/sdk and core/tensor. Start with backend.go, dataset.go or precision.go.
package sdktest
