// Package rundir reads run directories: those of running, finished, killed and resumed runs,
// and of other versions. It needs nothing but the files.
//
//   - [List] finds the runs of a folder; [ReadBrief] sums up one of them from its summary and the
//     ends of its events, without reading the steps: for lists.
//   - [Open] returns a [Reader]. Its Update reads what the run has written since the last call,
//     and its Run is everything known so far: configuration, outcome, [Curves] of the steps,
//     evaluations, checkpoints, and [Mark]s for failures, replacements, restarts and membership.
//     [Read] does both once. A resumed run has the run that it continues in Run.Before.
//   - [ReadTimeline] reads the trace of a run, if it recorded one.
//   - [ReadLabels] and [WriteLabels] keep the tags and the note that people give a run.
//
// A run of any length takes the same memory: curves hold at most [Resolution] intervals, each
// with the least, greatest and mean value of its steps, so that no spike is lost.
//
// Run.Problems lists what could not be read; nothing in a run directory makes reading fail
// but its absence.
//
// It imports core/base/durable, core/base/openfile, core/report/event and core/report/timeline. Start with run.go.
package rundir
