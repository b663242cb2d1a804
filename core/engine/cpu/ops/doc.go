// Package ops binds the operations of a plan to the kernels of core/engine/kernel, a file
// each. An operation registers itself when the program starts. Package activation has the
// functions of one element.
//
// It imports core/tensor and, of core/engine, cpu/bind, cpu/ops/activation, graph, op, plan and
// kernel. Start with linear.go.
package ops

import _ "github.com/trainctl/trainctl/core/engine/cpu/ops/activation" // registers them
