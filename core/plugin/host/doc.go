// Package host finds, starts, configures, watches and stops plugins. A plugin
// runs in a process of its own; the host gives its three kinds as
// [Collectives], [Batches] and [Scaler], and the same from an instance inside
// this process for tests.
//
// The order of calls is the one that package sdk states. Close is the last
// call on everything, and safe at any time: it ends the process whatever
// state it is in.
//
// It imports core/base, core/engine/graph, core/engine/op, core/plugin/flight, core/plugin/output,
// core/sdk and core/tensor. Start with host.go.
package host
