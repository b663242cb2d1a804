// Package sdktest has the conformance suites: tests of everything that the core relies
// on, which a plugin's own test calls in a few lines.
//
// It imports core/base, core/contract, core/engine/graph, core/engine/op, core/plugin/host,
// core/sdk and core/tensor. Start with backend.go, dataset.go, precision.go or
// observer.go.
package sdktest
