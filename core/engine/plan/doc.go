// Package plan turns a model graph into a flat list of steps for one batch
// shape, and runs it.
//
// Compile lowers the graph in passes, one file each: order.go says which nodes
// run and when each parameter's gradient is complete; cast.go gives every value
// its element type from the precision policy and puts casts where types meet;
// lower.go writes the steps and fuses some; memory.go gives every value a place
// in one arena by its lifetime. Bind hands the steps to a device, and Run
// executes them without allocating, firing a hook at the moment a gradient is
// complete in its bucket.
//
// Several programs share one State: the training batch, the last uneven batch
// and evaluation are three plans over the same parameters.
//
// It imports core/base/usererr, core/contract, core/tensor, core/engine/graph,
// core/engine/op and core/engine/kernel. Start with plan.go.
package plan
