// Package op defines the operations that models are made of, one file each.
//
// A [Definition] is everything that the rest asks about an operation: the keys
// of its table in a configuration with their checks, its parameters, its shape
// rule, its gradient rule and with it what is kept for backward, what its steps
// cost, what they may overwrite, the types and layouts that they take, its
// precision class, and the line that documents it. core/engine/nn, core/engine/graph,
// core/engine/plan, the schema, docs/configuration.md and plugins/amp read it; none of
// them knows an operation by name. A fused operation, which exists in plans only,
// has a definition too, beside those that it fuses; the patterns are the plan's.
//
// Devices implement steps: core/engine/cpu and core/engine/cuda have a file per operation, and
// so has the conformance suite. core/operations_test.go names the files that an
// operation lacks.
//
// It imports core/base/usererr, core/tensor and core/engine/graph. Start with
// op.go.
package op
