// Package agreement lets the ranks of a group agree on a collective before a library runs
// it that neither compares calls nor reports missing ranks, such as NCCL and MPI.
//
// Every rank is connected to a coordinator in rank 0's backend (coordinator.go). It
// announces its call (client.go), and the coordinator answers when all ranks that take
// part have announced theirs, or reports a mismatch, a missing rank or the end of a rank
// to all of them. Where the library itself is fast at small messages, the ranks exchange
// their calls by it, and announce only those that take long (exchange.go). Only ranks that
// know the job's secret are connected (hello.go).
//
// It imports core/base, core/contract, core/sdk, core/tensor, plugins/internal/clib and
// plugins/internal/instance. Start with member.go.
package agreement
