// Package conformance runs the conformance suite of core/sdk/sdktest outside of go
// test: one process runs the suite with package testing, another reads its output
// and reports each check.
//
// It imports core/base/jsonvalue, core/plugin/host, core/plugin/sandbox and core/sdk. Start with
// report.go, which starts the other process.
package conformance
