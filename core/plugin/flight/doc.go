// Package flight is the flight record of a run's backends: the last calls of each,
// and how far it came.
//
// A plugin notes in shared memory, whose layout is core/base/shm's, when it begins and
// ends an operation. A [Record] reads that of one process, for the message of its
// failure. A [Recorder] copies it into a file of the run directory while the run goes
// on, which outlives the run however it ends. flight.go reads the files of all ranks
// and compares them, and text.go prints what it found.
//
// It imports core/base/shm, core/contract, core/sdk and core/tensor. Start with flight.go.
package flight
