// Package scaffold creates new plugins from templates: in Go copies of the plugins in
// examples, in Python the examples of the SDK.
//
// It imports core/base/pattern, core/job/launch, for exit codes, core/plugin/registry, and sdk/python. Start with scaffold.go.
package scaffold
