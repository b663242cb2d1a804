package plan

import "github.com/trainctl/trainctl/core/tensor"

// Device turns the steps of a plan into something that runs. core/engine/cpu is one;
// a GPU is another that enqueues where the CPU computes.
type Device interface {
	Name() string

	// Workspace is the scratch memory in bytes that a step needs while it runs.
	// Steps use it one after the other.
	Workspace(s *Step) int

	// Bind finds memory for the plan's arena and workspace and prepares every
	// step. Executors of one device may share that memory: only one runs at a time.
	// The tensors of st stay the caller's and outlive the executor. The plan
	// has checked their types, shapes and sizes.
	Bind(p *Plan, st State) (Executor, error)
}

// Reserver is a device whose programs can share memory, whatever the order in
// which they are bound. Its steps have their workspace in the arena, too.
type Reserver interface {
	// Packs reports whether the workspaces lie among the activations, as [Plan.Pack] places them,
	// or all in one place beyond.
	Packs() bool
	// Reserve makes room for programs that need at most so many bytes of activations, and of
	// workspace beyond them.
	Reserve(activations, workspace int)
}

// Sharer is a device that computes on several threads of this machine, which can do other work between its steps.
type Sharer interface {
	// Share divides n things among the threads, in units that stay together. part prepares the work on the things
	// [lo, hi), once for each thread. Calling the result does all of it, allocates nothing, and returns when
	// it is done. It belongs to the goroutine that runs the device's programs.
	Share(n, unit int, part func(lo, hi int) func()) func()
}

// Executor runs the steps of one bound plan. It belongs to one goroutine at a time.
type Executor interface {
	// Step runs, or enqueues, step i. It must not allocate on the heap, and the
	// call's fields do not change between the steps of one run.
	Step(i int, c *Call)

	// Stats waits for all steps and returns what the loss reported. The error
	// says what the data set got wrong: an index out of range.
	Stats() (Stats, error)

	// Close frees the arena. The executor is not used after.
	Close() error
}

// State is the memory that all programs of a model share; see Resident for a
// device's copies of it.
type State struct {
	Tensors []tensor.Tensor // the model's copy, in state-dict order, as StateSpecs says
	Grads   []tensor.Tensor // by parameter, as GradSpecs says; nil for evaluation. Views into buckets
}

// Stats are the sums a loss makes over the rows of one batch.
type Stats struct {
	LossSum float64 // over rows; MSE: over elements
	Counted float64 // rows; losses of elements: these
	Correct float64 // rows whose largest output is the target's; MSE: 0
}

// Call is what changes between two runs of a program.
type Call struct {
	Input, Target []byte
	Accumulate    bool    // add into Grads instead of overwriting them
	GradScale     float64 // factor on the gradient of the mean loss
	Position      int     // the first that a plan of some positions computes
	Image         int     // the first that a device computes, if it cuts the batch
	Seed          uint64  // key of the dropout masks
	Stream        uint64  // step and rank; the low 16 bits are free for the layer

	Dropped []bool // by branch from 1: this run leaves it out

	Exchange Exchange // for steps that work with other ranks; nil: there are none
	Err      error    // set by a step whose exchange failed; the run ends there
}
