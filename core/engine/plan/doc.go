// Package plan turns a model graph into a flat list of steps for one batch
// shape, and runs it.
//
// Compile lowers the graph in passes, one file each: order.go decides which nodes
// run and when each parameter's gradient is complete; cast.go assigns element types
// according to the precision policy and inserts casts where types differ; lower.go
// creates the steps and fuses some; memory.go places every value in one arena by its
// lifetime. Bind passes the steps to a device, and Run executes them without
// allocating and calls a hook when a gradient is complete in its bucket.
//
// Several programs share one State: the training batch, the last uneven batch
// and evaluation are three plans over the same parameters.
//
// It imports core/base/usererr, core/contract, core/tensor, core/engine/graph,
// core/engine/op and core/engine/kernel. Start with plan.go.
package plan
