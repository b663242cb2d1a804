// Package launch runs one process per rank on this host and answers for them.
// The story of a run, as Run tells it:
//
// Spawn. The launcher binds the job's store before it starts anybody, then
// starts every rank in a process group of its own with torchrun's environment
// (rank.WorkerEnv). Each rank gets two pipes beside its output: a lifeline,
// which reads EOF once the launcher is dead (WatchLifeline), and an event pipe
// for JSON lines (EventFile).
//
// Watch. Output goes line by line, with the rank in front, to one log, and
// without it to a file per rank; the last lines stay in memory. Events go to
// a callback.
//
// First failure. The first rank that ends with a signal or an exit code other
// than 0 is the root cause. A rank that ends with ExitPeer failed because of
// another one: it is a witness, and the launcher waits a second for the
// culprit before it takes the witness's own account. A rank that ends with 0
// before the others is done, not failed. All others get SIGTERM, and SIGKILL to
// their whole group a second later; descendants that left their group are found
// through the subreaper (Linux) and killed as well. Nothing outlives Run.
//
// Block. The failure becomes one block (Failure.Format): who, where, when, how,
// its last lines, what to do. If restarts are left and could help, the whole
// group starts again with the next TORCHELASTIC_RESTART_COUNT.
//
// Exit code. Result.ExitCode is what the launcher should exit with; see the
// constants.
//
// Over several hosts one launcher runs on each. Node 0's hosts a second store,
// at the rendezvous endpoint, for the launchers alone: they learn each other's
// numbers of ranks there (global ranks are the prefix sum in node order),
// start each attempt together, and end it together when one of them reports
// a failure or disappears.
//
// If the launcher itself is killed, Linux kills the ranks with it
// (PR_SET_PDEATHSIG), and the lifeline ends them and every descendant that
// was handed it on any system.
//
// It imports core/base, core/job/rank and core/job/secret. Start with run.go.
package launch
