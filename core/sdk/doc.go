// Package sdk is what a plugin author imports.
//
// A plugin is an executable with a main of a few lines:
//
//	func main() { sdk.Serve(sdk.Plugin{Backend: mybackend.New}) }
//
// It implements one of three interfaces: [Backend] moves gradients between
// ranks, [Dataset] writes batches into shared slots, [Precision] says what is
// computed in which type and keeps the loss scale. The host starts one
// instance per rank, in a process of its own.
//
// # Where the data is
//
// Bulk data never crosses gRPC. The host creates arenas (anonymous shared
// memory), hands their file descriptors over, and passes work through
// submission slots in shared memory: a plugin sees plain byte slices that
// alias the rank's own memory. gRPC configures, registers, reports and shuts
// down. A plugin in a language that cannot map memory gets the bytes inline
// over gRPC instead, negotiated at start: slower and still correct.
//
// # Who calls what, and when
//
// The SDK calls an instance from one goroutine at a time, in this order:
// Info; Open (or Policy) once; the kind's set-up methods; then the work, one
// call at a time in submission order; Close once. Contexts carry the host's
// deadline; a method returns soon after its context ends. Slices passed to a
// method may be used until it returns and never after.
//
// It imports core/base, core/contract, core/sdk/pb and core/tensor. Start with
// plugin.go and the interface of the kind: backend.go, dataset.go,
// precision.go.
package sdk
