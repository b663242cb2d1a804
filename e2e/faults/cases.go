//go:build linux

package main

import (
	"slices"
	"time"
)

// fault is one case of the fault matrix.
type fault struct {
	number  int
	name    string        // what goes wrong
	promise string        // what a user may rely on
	limit   time.Duration // of the whole case; 0 is a minute
	needs   []need
	run     func(t *trial)
}

// need says what this machine lacks for a case, or "".
type need func() string

// matrix returns all cases in the order of their numbers.
func matrix() []fault {
	slices.SortFunc(cases, func(a, b fault) int { return a.number - b.number })
	return cases
}

// cases are all cases, by the files with their code.
var cases = []fault{
	// In cases_kill.go: processes that are killed, and signals to the launcher.
	{number: 1, name: "kill -9 of a rank while ranks meet", run: killWhileMeeting,
		promise: "the others end, the group restarts, and one restart is used"},
	{number: 2, name: "kill -9 of a rank in a step", run: killInStep,
		promise: "the other rank notices within 1 s; the restarted run ends with the bits of an undisturbed one"},
	{number: 3, name: "kill -9 of a rank in a collective", run: killInCollective,
		promise: "no rank applies a partial sum: resuming gives the bits of an undisturbed run"},
	{number: 4, name: "kill -9 of rank 0 writing a checkpoint", run: killWhileWriting,
		promise: "the previous checkpoint is used, the unfinished one is removed"},
	{number: 5, name: "kill -9 between a checkpoint's rename and latest", run: killBeforeLatest,
		promise: "the newest whole checkpoint is found without latest"},
	{number: 6, name: "kill -9 of a launcher", run: killLauncher,
		promise: "ranks and plugins are gone within 2 s, the port is free"},
	{number: 7, name: "kill -9 of a backend plugin in a collective", run: killBackend,
		promise: "exit 5; the block names the plugin, its rank, its last operation and what it printed last"},
	{number: 8, name: "kill -9 of a dataset plugin", run: killDataset,
		promise: "exit 5, named; after resuming no sample is lost or read twice"},
	{number: 9, name: "kill -9 of the rendezvous' leader", run: killLeader,
		promise: "the others end with 4 while nodes meet, with 5 later, in bounded time"},
	{number: 10, name: "SIGTERM to the launcher", run: terminate,
		promise: "saves and ends with 75 within the grace, or 143 if nothing may be saved; resuming is exact"},
	{number: 11, name: "a second SIGINT", run: interruptTwice,
		promise: "everything is killed at once, exit 130, no orphan"},
	// In cases_stop.go: processes that stand still.
	{number: 12, name: "SIGSTOP of a rank for a while", run: stopRank, limit: 90 * time.Second,
		promise: "the progress names the stalled rank; the run continues after SIGCONT, with equal bits"},
	{number: 13, name: "SIGSTOP of a plugin forever", run: stopPlugins, limit: 90 * time.Second,
		promise: "the plugin is named and killed in bounded time, exit 5"},
	// In cases_end.go: ranks and plugins that end by themselves.
	{number: 14, name: "a rank exits with 0 early", run: leaveEarly, needs: []need{canTrace},
		promise: "a failure that names the rank, exit 5, not a success"},
	{number: 15, name: "panic in a rank", run: panicInRank, needs: []need{canTrace},
		promise: "exit 5; the panic's message and place in the block, the stack in the log"},
	{number: 16, name: "panic in a plugin", run: panicInPlugin,
		promise: "exit 5; the panic is reported as the plugin's, with its name and version; the stack is in the log"},
	{number: 17, name: "SIGSEGV in an assembly kernel", run: crashInKernel, needs: []need{canTrace},
		promise: "exit 5; the block shows the signal and the kernel"},
	{number: 18, name: "restarts are used up", run: useUpRestarts,
		promise: "exit 5; every attempt is reported"},
	// In cases_disk.go: disks that are full, broken, read-only, or lose their power.
	{number: 19, name: "disk full while saving", run: fullDiskSaving, needs: []need{isRoot},
		promise: "reported with the path; earlier checkpoints stay intact, and resuming is exact once there is space"},
	{number: 20, name: "disk full for logs and events", run: fullDiskLogging, needs: []need{isRoot},
		promise: "one warning, training continues, and no line is incomplete once there is space"},
	{number: 21, name: "fsync fails with EIO", run: brokenDisk, needs: []need{isRoot, hasLoop},
		promise: "that save fails and is never published; a later one succeeds or the run reports why not"},
	{number: 22, name: "run directory is read-only", run: readOnlyRuns, needs: []need{isRoot},
		promise: "refused before the first step, with the path and a hint"},
	{number: 23, name: "power loss", run: losePower, needs: []need{isRoot, hasLoop}, limit: 2 * time.Minute,
		promise: "at any moment after the first save the disk holds a checkpoint that resumes exactly"},
	// In cases_checkpoint.go: checkpoints that are damaged, hostile, or of another job.
	{number: 24, name: "bit flip in a checkpoint", run: flipBit,
		promise: "the checksum detects it; --resume auto uses the previous checkpoint; exit 6 if none is left"},
	{number: 25, name: "truncated checkpoint or header", run: truncateCheckpoint,
		promise: "as for a bit flip; no large allocation"},
	{number: 26, name: "safetensors bombs", run: bombs,
		promise: "refused at once with the file's name, using little memory"},
	{number: 27, name: "pickle that would run a program", run: pickle,
		promise: "refused as a pickle; the function it would call is named, nothing is executed"},
	{number: 28, name: "checkpoint of another world size or model", run: otherJob,
		promise: "another world size continues; another model is refused with the difference"},
	{number: 29, name: "two runs write into one run directory", run: twoWriters,
		promise: "the second one ends with 2 and names the first one's pid"},
	// In cases_data.go: data that are damaged, vanish, or do not arrive.
	{number: 30, name: "truncated IDX, wrong magic, trailing bytes", run: badIDX,
		promise: "exit 2 before the first step, with file and offset"},
	{number: 31, name: "dataset file shrinks during the run", run: shrinkingData,
		promise: "no crash: continues from memory, or fails with the file's name"},
	{number: 32, name: "damaged image in an image folder", run: badImage,
		promise: "exit 2 with the file's name, or with corrupt = \"skip\" skipped and counted"},
	{number: 33, name: "download with wrong bytes, a stall, a page of HTML", run: badDownload, limit: 90 * time.Second,
		promise: "the next mirror is tried, every reason is reported, no bad file is kept"},
	// In cases_config.go: mistakes in the configuration.
	{number: 34, name: "malformed TOML", run: mutatedTOML,
		promise: "no panic, exit 0 or 2, every position inside the file"},
	{number: 35, name: "unknown, misspelt, wrong-case keys", run: misspeltKeys,
		promise: "exit 2 with line, column and a suggestion"},
	// In cases_plugin.go: plugins that are exchanged, wrong, or hostile.
	{number: 36, name: "plugin with another checksum", run: changedPlugin,
		promise: "exit 3 with both sums, never executed"},
	{number: 37, name: "plugin swapped between hash and exec", run: swappedPlugin,
		promise: "what was hashed is what runs"},
	{number: 38, name: "garbage instead of a handshake, hang at the start", run: noPlugin,
		promise: "exit 3 within the start's time, with what it printed"},
	{number: 39, name: "plugin of another protocol version", run: otherVersion,
		promise: "exit 3 with both versions"},
	{number: 40, name: "malicious plugin: reads home, connects, forks", run: spyPlugin, needs: []need{hasLandlock},
		promise: "denied with sandbox = true; without it, its processes still end with the run"},
	{number: 41, name: "plugin lies: shapes, labels, sizes, descriptors", run: lyingPlugin, limit: 2 * time.Minute,
		promise: "an error that names the plugin or its data, no crash, no flood"},
	// In cases_memory.go: processes that the kernel kills for their memory.
	{number: 42, name: "plugin leaks memory", run: leakingPlugin, needs: []need{isRoot, hasMemoryCgroup},
		promise: "reported as out of memory, with the plugin's name, not only as signal 9"},
	{number: 43, name: "rank out of memory", run: hungryRank, needs: []need{isRoot, hasMemoryCgroup},
		promise: "reported as out of memory, with the limit, the peak and what to lower"},
	// In cases_network.go: links that break or are slow, and hosts without what one
	// takes for granted.
	{number: 44, name: "full partition between two hosts", run: partition, needs: []need{isRoot, hasTUN}, limit: 2 * time.Minute,
		promise: "with default timeouts both sides end with 5 within a minute and name the other; no rank continues"},
	{number: 45, name: "one-way partition", run: oneWay, needs: []need{isRoot, hasTUN}, limit: 2 * time.Minute,
		promise: "as for a full partition"},
	{number: 46, name: "connection reset in mid-frame", run: resetInFrame, needs: []need{isRoot, hasTUN},
		promise: "no retry inside a collective: the group ends, restarts, and ends with equal bits"},
	{number: 47, name: "slow link, slow rank", run: slowPeer, needs: []need{isRoot, hasTUN}, limit: 2 * time.Minute,
		promise: "finishes with equal bits; the rank that the others waited for is named"},
	{number: 48, name: "delay and jitter", run: jitter, needs: []need{isRoot, hasTUN}, limit: 2 * time.Minute,
		promise: "equal bits"},
	{number: 51, name: "port in use, port 0, IPv6 alone, no resolver", run: oddHosts, needs: []need{isRoot, hasTUN},
		promise: "works, or a clear error"},
	// In cases_member.go: ranks that do not belong together.
	{number: 49, name: "duplicate rank, wrong world size, wrong run id", run: strangers,
		promise: "refused with the reason, in bounded time"},
	{number: 52, name: "ranks call different collectives", run: mismatch,
		promise: "both calls are named, no hang"},
	// In cases_value.go: clocks and numbers that go wrong.
	{number: 50, name: "clock jumps by ±1 h", run: jumpingClock, needs: []need{canTrace},
		promise: "no timeout fires: the run continues with equal bits"},
	{number: 53, name: "loss becomes NaN, loss scale collapses", run: nonFinite,
		promise: "single steps are skipped and reported; a lasting divergence ends the run with 1, reported as divergence"},
	// In cases_soak.go: faults at random moments.
	{number: 54, name: "random kills and stops, one run after the other", run: soakCase, limit: 4 * time.Minute,
		promise: "no hang, no orphan, every checkpoint usable, equal bits in the end"},
}
