// Package train is the training loop of one rank.
//
// step.go is one optimizer step. It calls parts in the order in which they work. Each is a struct with its own state, in a file of its own:
//
//	data.Feeder   gives the step its batches (core/train/data)
//	join          lets ranks with fewer batches take part (join.go)
//	replication   gives all ranks the same weights and buffers (replicate.go, feedback.go)
//	passes        runs forward and backward (forward.go, programs.go)
//	ddp.Reducer   averages gradients meanwhile (core/train/ddp)
//	agreement     adds up what ranks tell each other (agreement.go)
//	updater       applies the averages (update.go), unless the run diverges (diverge.go)
//	report        tells of the step (report.go, metrics.go, waits.go)
//
// Around the step, Run in loop.go walks epochs, evaluate.go evaluates, save.go decides about
// checkpoints and writes them, and preempt.go ends a run that was asked to stop. Before it,
// Setup in setup.go makes the parts: outline.go plans, memory.go lays out what the
// rank shares with its backend, device.go and shared.go copy that to a GPU, buckets.go measures what
// buckets should hold, and resume.go reads checkpoints. Whatever ranks do together goes
// through a recovery.Recovery, which repeats it when a plugin dies (stages.go).
//
// A Trainer belongs to one goroutine.
//
// It imports core/base, core/engine, core/job/rank, core/plugin/host,
// core/report, core/sdk, core/tensor and, of core/train, data, ddp, checkpoint and
// recovery (core/train). Start with step.go.
package train
