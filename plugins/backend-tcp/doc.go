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
//   - Otherwise every rank tells every other what it calls (agree.go), small
//     contributions attached. Large ones are cut into one chunk per rank:
//     chunks travel to their owner, are reduced there and go back to everyone,
//     segment by segment, sending and receiving at once (exchange.go).
//
// All compute the same thing: contributions are combined in rank order, half
// types in float32 with one rounding. So results are bit-equal on all ranks,
// from run to run, and whichever path was taken. A ring moves the same
// 2(n-1)/n of the buffer but adds in an order that depends on the chunk and
// rounds half types at every hop, which is why there is none.
//
// # Belonging and failing
//
// Peers prove that they know the job's secret and agree on job, generation and
// ranks before anything else is parsed (handshake.go). A rank that fails tells
// the others why before it stops (abort.go), so that all name the same culprit.
package tcp
