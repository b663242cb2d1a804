// Package tcp is the backend plugin for CPUs and small clusters: collectives
// over TCP between hosts and in shared memory within one.
//
// # How an all-reduce runs
//
// Do (do.go) starts the call and picks a path (choose.go):
//
//   - All ranks on one host: the ranks compare their calls in small control pages
//     (local_linux.go), then every rank reduces its slice of the buffer for all,
//     reading and writing the other ranks' memory directly.
//   - Several hosts of several ranks (hosts_linux.go): the ranks of a host compare their calls in
//     shared memory, and the first rank of each host, its leader, compares them with the other
//     leaders over sockets. Small contributions of all ranks of a host are sent with this call. For larger
//     reductions each rank owns a slice: sums go from host to host, where every owner adds its host's
//     ranks from their memory, and results go back. Larger copies go from leader to leader.
//   - One rank on each host: every rank sends its call to every other (call.go), together with
//     small contributions. Larger ones are sent by an algorithm that supplies
//     frames as sockets become ready (drive.go): directly to everyone (direct.go), or in
//     chunks to the rank that owns each and back (mesh.go).
//
// These compute the same result: contributions are combined in rank order, half
// types in float32 with one rounding. So results are bit-equal on all ranks,
// from run to run, and on every path.
//
// A rank has connections with the leader of its host, with the ranks in its position on neighbour
// hosts, and if it is a leader with the other leaders and the ranks of its host (endpoint.go).
// Send opens others when it needs them (pair.go).
//
// With reproducible = false the cost model (cost.go) also considers recursive doubling and a
// binomial tree (whole.go), recursive halving and doubling (halving.go) and a ring (ring.go).
// They add in another order, the same in every run, and only in float32 and wider types; between
// hosts of several ranks they reduce the sums of hosts. The
// option algorithm forces one algorithm for measurements: docs/scaling.md lists them.
//
// # Authentication and failures
//
// Peers prove that they know the job's secret and agree on job, generation and
// ranks before anything else is parsed (handshake.go). A rank that fails sends
// the others the reason before it stops (abort.go), so that all name the same rank.
//
// Package plugins/internal/reduce has the arithmetic.
//
// It imports core/base, core/contract, core/sdk, core/tensor,
// plugins/internal/reduce and plugins/internal/instance. Start with do.go.
package tcp
