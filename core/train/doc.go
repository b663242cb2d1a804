// Package train is the training loop of one rank.
//
// step.go is one optimizer step. It calls these parts in order. Each is a struct with
// its own state, most in a package of their own:
//
//	data.Feeder   gives the step its batches (core/train/data)
//	join          lets ranks with fewer batches take part (join.go)
//	replication   gives all ranks the same weights and buffers (core/train/replica)
//	passes        runs forward and backward (core/train/passes)
//	ddp.Reducer   averages gradients during backward (core/train/ddp)
//	agreement     reduces the totals of a step over ranks (core/train/agreement)
//	updater       applies the averages (core/train/update), unless the run diverges (diverge.go)
//	report        emits the step's event and metrics (core/train/report)
//
// Around the step, Run in loop.go iterates over epochs, evaluate.go evaluates, save.go
// decides when to save checkpoints and writes them, and preempt.go ends a run that was
// asked to stop. Before it, Setup in setup.go creates the parts from the plan
// of the run (core/train/outline): tune.go measures the best bucket size, and resume.go
// reads checkpoints. Everything that ranks do together goes through a recovery.Recovery,
// which repeats it when a plugin dies (stages.go).
//
// A Trainer is used by one goroutine.
//
// It imports core/base, core/engine, core/job/rank, core/plugin/host,
// core/report, core/sdk, core/tensor and the packages in core/train. Start with step.go.
package train
