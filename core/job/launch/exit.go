package launch

// Exit codes of trainctl. A worker uses the same ones, and the launcher passes on
// those that are more specific than "a worker failed".
const (
	ExitOK         = 0
	ExitFailed     = 1  // the run failed
	ExitConfig     = 2  // usage or configuration
	ExitPlugin     = 3  // plugin missing, checksum or protocol
	ExitRendezvous = 4  // ranks or launchers did not find each other in time
	ExitWorker     = 5  // a worker failed and restarts are used up
	ExitCheckpoint = 6  // checkpoint unusable
	ExitPeer       = 7  // only of a worker: it failed because another rank did
	ExitRefused    = 8  // only of a worker under this launcher, instead of ExitConfig: a panic exits with 2
	ExitDiverged   = 10 // only of a worker under this launcher, instead of ExitFailed: it diverged, which a restart would repeat
	ExitNoModel    = 11 // only of a worker under this launcher: it was to join, and all ranks that had the model are gone
	ExitPreempted  = 75 // stopped from outside after saving; start again to resume
	ExitInterrupt  = 130
	ExitTerminated = 143
)

// passesThrough reports whether a worker's exit code is more specific than ExitWorker.
func passesThrough(code int) bool {
	switch code {
	case ExitRefused, ExitPlugin, ExitRendezvous, ExitCheckpoint, ExitDiverged, ExitPreempted:
		return true
	}
	return false
}

// restartHelps is false for failures that would repeat, and for a preempted host.
func restartHelps(code int) bool {
	switch code {
	case ExitRefused, ExitPlugin, ExitCheckpoint, ExitDiverged, ExitNoModel, ExitPreempted:
		return false
	}
	return true
}

// panicked is the exit code of a Go program that panics.
const panicked = 2

// jobCode is the launcher's exit code for one of a worker's that passes through.
func jobCode(worker int) int {
	switch worker {
	case ExitRefused:
		return ExitConfig
	case ExitDiverged:
		return ExitFailed
	}
	return worker
}
