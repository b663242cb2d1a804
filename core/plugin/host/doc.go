// Package host starts, configures, supervises and stops plugins. A plugin
// runs in its own process. Callers use the three kinds through [Collectives],
// [Batches] and [Scaler]; for tests, an instance in this process implements the
// same interfaces.
//
// The order of calls is documented in package sdk. Close is the last call on
// everything, and safe at any time: it ends the process in whatever state it is.
//
// It imports core/base, core/engine/graph, core/engine/op, the other packages of core/plugin,
// core/sdk and core/tensor. Start with host.go.
package host
