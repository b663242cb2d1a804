// Package etcd is the rendezvous of a job's launchers in etcd, for jobs in which no node is
// special.
//
// All keys of a job are below one prefix:
//
//	nodes/N    the launcher that is node N, with a lease: it is gone soon after its launcher
//	host       which node hosts the ranks' store, and where; without a lease
//	record/K   what the next host continues from (rank.Journal)
//	value/K    what launchers leave for each other (Set, Get, CompareAndSet)
//	doubt/N    its change asks the launcher of node N to write its key again (Answers)
//
// Values are signed with the job's secret (sign.go).
//
// A node becomes the host by replacing the value of host, under the condition that nobody else
// has (Campaign). Every record is written under the condition that host is still this node's, so
// a host that others took for dead, because it was frozen or cut off, changes nothing any more,
// and no clock has to be right. The job itself does not depend on etcd: while etcd is unreachable,
// ranks train with the host that they have, and only changes of the host and of the ranks wait.
// Leases that have run out meanwhile are renewed, and a missing lease alone does not make another
// node the host.
//
// It imports core/base/usererr and core/job/secret alone. Start with job.go.
package etcd
