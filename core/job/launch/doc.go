// Package launch starts and supervises one process per rank on this host.
// Run does this in these steps:
//
// Spawn. The launcher binds the job's store before it starts any rank, then
// starts every rank in its own process group with torchrun's environment
// (rank.WorkerEnv). Each rank gets two pipes in addition to its output: a
// lifeline, which reads EOF once the launcher is dead (WatchLifeline), and an
// event pipe for JSON lines (EventFile).
//
// Watch. Output lines go to one log, prefixed with the rank, and without the
// prefix to a file per rank; the last lines stay in memory. Events go to a
// callback.
//
// First failure. The first rank that ends with a signal or an exit code other
// than 0 is the root cause. A rank that ends with ExitPeer failed because of
// another rank: the launcher waits up to a second for that rank to end, and
// only then reports the ExitPeer itself as the root cause. A rank that ends
// with 0 before the others is done, not failed. All others get SIGTERM, and a
// second later (five if the root cause is an ExitPeer) SIGKILL for their whole
// process group; descendants that left the group are found through the
// subreaper (Linux) and killed as well. No process outlives Run.
//
// Report. Failure.Format formats the failure as one block: which rank, where,
// when, how, its last lines, what to do. If restarts are left and could help,
// the whole group starts again with the next TORCHELASTIC_RESTART_COUNT.
//
// Exit code. Result.ExitCode is what the launcher should exit with; see the
// constants.
//
// In a job over several hosts, one launcher runs on each host. The launcher of
// node 0 hosts a second store at the rendezvous endpoint, only for the
// launchers: they exchange their numbers of ranks there (global ranks are the
// prefix sum in node order), start each attempt together, and end it together
// when one of them reports a failure or disappears.
//
// In an elastic job (elastic.go) the others go on when a rank dies, and another one is started in
// its place while restarts are left. With a range of nodes no launcher waits for another: each
// finds in node 0's store what it needs, starts its ranks, and starts them again when it had lost
// node 0. With etcd (hosting.go) any node may host the ranks' store, and another one does when it
// is gone.
//
// If the launcher itself is killed, Linux kills its ranks too
// (PR_SET_PDEATHSIG). On every system the lifeline ends the ranks, and all
// descendants that inherited it.
//
// It imports core/base, core/job/etcd, core/job/rank and core/job/secret. Start with run.go.
package launch
