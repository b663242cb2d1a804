// Package tcp is the backend plugin for CPUs and small clusters: collectives
// over TCP between hosts and in shared memory within one.
//
// # The walk of an all-reduce
//
// Do (do.go) numbers the call and picks a path (choose.go):
//
//   - All ranks on one host: the ranks meet in small control pages
//     (local_linux.go), compare what each of them calls, then every rank
//     reduces its slice of the buffer for all (localops_linux.go), reading and
//     writing the other ranks' memory directly.
//   - Several hosts with equally many ranks, in order: each rank owns a slice.
//     Sums of slices travel along the hosts, every owner adding its host's
//     ranks from their memory, and results travel back (hosts_linux.go).
//   - Otherwise every rank tells every other what it calls (call.go), small
//     contributions attached. Larger ones go by an algorithm that asks for
//     frames as sockets have room (drive.go): directly to everyone (direct.go),
//     or in chunks to the rank that owns each and back (mesh.go).
//
// These compute the same thing: contributions are combined in rank order, half
// types in float32 with one rounding. So results are bit-equal on all ranks,
// from run to run, and whichever path was taken.
//
// The option algorithm names three more: a ring (ring.go), recursive doubling
// (doubling.go), and recursive halving and doubling (halving.go). They add in
// another order, the same in every run, and only in float32 and wider types. With
// reproducible = false the cost model (cost.go) chooses among all of them.
//
// # Belonging and failing
//
// Peers prove that they know the job's secret and agree on job, generation and
// ranks before anything else is parsed (handshake.go). A rank that fails tells
// the others why before it stops (abort.go), so that all name the same culprit.
//
// Package reduce below it (plugins/backend-tcp/internal/reduce) has the arithmetic.
//
// It imports core/base, core/contract, core/sdk, core/tensor and
// plugins/backend-tcp/internal/reduce. Start with do.go.
package tcp
