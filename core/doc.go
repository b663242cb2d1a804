// Package core tells how trainctl fits together. It contains no code: start
// here, then read core/train/step.go, one training step.
//
// # Processes
//
//	trainctl run cfg.toml                launcher (core/job/launch): checks, spawns, watches, reports
//	 ├─ rank 0  trainctl worker          fx app (core/app): plan and loop; owns weights, gradients, optimizer state
//	 │    ├─ backend plugin              maps the rank's arena and reduces gradient buckets in it
//	 │    ├─ precision plugin            says what is computed in which type, keeps the loss scale
//	 │    ├─ dataset plugin              writes batches into shared slots
//	 │    └─ layer plugins               compute layers of the type plugin, whose tensors are copied to them and back
//	 ├─ rank 1 …
//
// A worker is also what torchrun, srun or mpirun starts: core/job/rank reads any
// of their environments. Plugins are the same executable started again, or any
// other one that core/sdk.Serve serves.
//
// Where processes of several hosts meet, core/base/hostnet listens and puts the
// connection under TLS with keys that core/job/secret derives from the job's secret;
// core/base/keepalive says when it is cut off.
//
// # The walk of a gradient bucket
//
// core/engine/plan/run.go finishes the step that completes a parameter's gradient,
// which the kernel has written straight into its place in a bucket, and calls
// the hook. core/train/ddp/ready.go, a machine without memory or communication,
// counts the bucket down and says which buckets may be launched: in index
// order, never before their predecessors. core/train/ddp/reduce.go divides by the
// world size, numbers the call and submits it. core/plugin/host/ringqueue.go writes a
// 128-byte descriptor into core/base/shm's ring and rings the doorbell; the bytes
// stay where they are, because the arena is mapped in the plugin too. There
// core/sdk takes the descriptor from the ring and calls Do, and
// plugins/backend-tcp reduces in place: through the mapped arenas of ranks on
// the same host, over sockets otherwise. The completion comes back through the
// ring, core/train/ddp/reduce.go's Finish returns, and the optimizer reads the same
// memory. Backward went on all the while.
//
// A backend that maps memory of GPUs gets buckets where the rank's GPU wrote
// them: core/engine/cuda/memory.Arena allocates and exports, core/train/replica/shared.go shows it,
// core/plugin/host passes the handle on, plugins/backend-nccl/arena.go maps it. Then
// core/train/ddp/inplace.go submits, and the descriptor names events too, which put
// the streams of both processes in order (core/contract/device.go).
//
// # The walk of a batch
//
// core/train/step.go calls the parts of the loop in the order in which a batch passes
// them. core/train/passes takes it from core/train/data/feeder.go, and that from
// core/train/data/loader.go, which has requested it
// some steps ago: core/train/data/sampler.go chose the indices, core/plugin/host/dataset.go
// passed them through the ring, and the dataset plugin filled a slot of the
// shared batch arena. core/engine/plan runs forward, loss and backward over it on the
// device (core/engine/cpu, kernels in core/engine/kernel). Then the bucket walk ends, all
// ranks agree that the gradients are finite (core/train/agreement), core/engine/optim
// updates the weights (core/train/update), and core/report/event learns StepDone
// (core/train/report). If the backend's process group breaks meanwhile,
// core/train/recovery forms another one, and the step is repeated.
//
// # A job's beginning
//
// core/job/launch binds the rendezvous store before it spawns anybody, so no port
// can be lost. Each worker starts its plugins at the same time, opens
// them, builds the model (core/engine/nn, of the operations of core/engine/op), differentiates
// it (core/engine/graph), plans one
// step (core/engine/plan), lays out one shared arena for buckets and weights
// (core/train/outline), and compares notes with all ranks through the store
// (core/train/ddp/verify.go) before the first collective. Rank 0's weights, drawn or
// loaded, are then broadcast where they lie.
//
// # Ranks on GPUs
//
// core/app/device.go chooses the device. On a GPU (core/engine/cuda) a plan's steps are
// enqueued, and the arena, the optimizer's state and master weights have copies
// in its memory; core/train/replica/device.go says when they are brought to the host.
// A bucket's walk has two more steps: core/train/ddp/staging.go fetches it into the arena
// when its gradients are final, and stores it back when it is reduced.
//
// # GPU libraries
//
// core/base/dl finds shared libraries and opens them at run time, and
// core/engine/cuda/driver binds NVIDIA's by tables of symbols; docs/gpu.md says what
// of it is proved. trainctl doctor shows what a machine has.
//
// # The folders of core
//
//	base/      what knows nothing of training: errors with a fix, shared memory, random numbers, connections, cgroups, crashes
//	tensor     element types, shapes, tensors
//	contract   what engine and plugins agree on: policies, device memory, collectives
//	engine/    operations (op), models (nn), graphs, plans, kernels, the devices cpu and cuda with their suite, optimizers
//	job/       launcher, ranks and their rendezvous, the job's secret
//	report/    events and what is made of them: progress, logs, TensorBoard, timeline, forecast;
//	           run directories (report/rundir, report/watch) and, above config, pages about them (report/page, report/ui)
//	sdk        what a plugin's author imports; sdk/sdktest is the conformance suite
//	plugin/    finding plugins, the host's side of them, their sandbox, what they print, their flight record, and what delivers events to observers
//	train/     the training loop, and below it ddp, data, checkpoint and recovery
//	onnx         trained models as files for other runtimes, and networks from such files (onnx/importer)
//	infer        what a trained model says: generated text, predictions
//	sweep        training with several settings, as processes of trainctl run
//	bench, config, app   measuring, the TOML file, and the wiring of it all
//
// Imports go from a folder to those above it in this list, and no other way;
// nothing from core/engine/plan to core/engine/optim links gRPC. core/arch_test.go
// holds the rules, each with its reason.
package core
