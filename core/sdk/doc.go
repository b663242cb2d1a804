// Package sdk is the package that plugin authors import.
//
// A plugin is an executable with a main of a few lines:
//
//	func main() { sdk.Serve(sdk.Plugin{Backend: mybackend.New}) }
//
// It implements one of five interfaces: [Backend] moves gradients between ranks,
// [Dataset] writes batches to shared slots, [Precision] selects the types of
// computation and maintains the loss scale. The host starts one instance of these per
// rank, each in its own process. [Layer] computes layers of the model, for experiments, also per rank.
// [Observer] gets the events of a run, one instance per job.
//
// # Where the data is
//
// Bulk data does not go through gRPC. The host creates arenas (anonymous shared
// memory), passes their file descriptors to the plugin, and submits work in slots
// in shared memory: a plugin sees plain byte slices that alias the rank's memory.
// gRPC is used to configure, register, report and shut down. A plugin in a language
// that cannot map memory gets the bytes inline over gRPC instead, which is slower;
// this is negotiated at start.
//
// # Order of calls
//
// The SDK calls an instance from one goroutine at a time, in this order:
// Info; Open (or Policy) once; the kind's set-up methods; then the work, one
// call at a time in submission order; Close once. Contexts carry the host's
// deadline; a method returns soon after its context ends. Slices passed to a
// method may be used until it returns and never after.
//
// It imports core/base, core/contract, core/sdk/pb and core/tensor. Start with
// plugin.go and the interface of the kind: backend.go, dataset.go,
// precision.go, observer.go, layer.go.
package sdk
