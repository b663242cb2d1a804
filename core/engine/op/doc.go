// Package op defines the operations that models are made of, one file each; package activation
// below it has the functions of one element.
//
// A [Definition] has all properties of an operation: its configuration keys with
// their checks, its parameters, its shape rule, its gradient rule and what that
// saves for backward, the cost of its steps, what they may overwrite, the types and
// layouts they accept, its precision class, and its line of documentation.
// core/engine/nn, core/engine/graph, core/engine/plan, the schema,
// docs/configuration.md and plugins/amp read it; none of them refers to an
// operation by name. A fused operation, which exists only in plans, has a
// definition too, next to the operations it fuses; package plan has the patterns.
//
// Devices implement steps: core/engine/cpu and core/engine/cuda have a file per operation, and
// so has the conformance suite. core/operations_test.go reports the files that an
// operation is missing.
//
// It imports core/base/usererr, core/tensor and core/engine/graph. Start with
// op.go.
package op
