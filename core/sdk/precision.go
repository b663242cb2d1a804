package sdk

import (
	"context"

	"github.com/trainctl/trainctl/core/contract"
)

// Precision selects the types of computation and maintains the loss scale.
type Precision interface {
	Info() Info

	// Policy is called once, before the plan is built. Illegal combinations of
	// options are errors here.
	Policy(ctx context.Context, options Options) (Policy, error)

	// Update is called once per optimizer step, on every rank, after the
	// gradients were reduced and checked on all ranks. It returns the scale
	// for the next step. It must depend only on the sequence of arguments, so that
	// ranks agree without communication.
	Update(ctx context.Context, foundInf bool) (ScaleState, error)

	// State and Load save and restore the scaler in checkpoints, with PyTorch's
	// names; the scale of the next step is "scale" or "loss_scale". An empty map
	// means that there is no state.
	State(ctx context.Context) (map[string]float64, error)
	Load(ctx context.Context, state map[string]float64) error

	Close() error
}

// Cast is the conversion of the inputs of one operation type by a policy.
type Cast = contract.Cast

// The casts of torch.autocast.
const (
	CastNone    = contract.CastNone    // run in whatever type the inputs have
	CastLower   = contract.CastLower   // cast floating inputs to the policy's Lower type
	CastF32     = contract.CastF32     // cast floating inputs to float32
	CastPromote = contract.CastPromote // cast floating inputs to the widest among them
	CastBanned  = contract.CastBanned  // refuse the op, naming the alternative
)

// Policy is the precision of a run, for the plan.
type Policy = contract.Policy

// ScaleState is the scaler after an update.
type ScaleState struct {
	Scale   float64 // for the next step
	Skip    bool    // the optimizer must not apply this step
	Skipped uint64  // steps skipped in a row
}
