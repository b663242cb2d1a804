// Package scaffold creates new plugins from templates, which are copies of the
// plugins in examples.
//
// It imports core/job/launch, for exit codes. Start with scaffold.go.
package scaffold
