package sdk

import (
	"context"

	"github.com/trainctl/trainctl/core/contract"
)

// Precision says what is computed in which type, and keeps the loss scale.
type Precision interface {
	Info() Info

	// Policy is asked once, before the plan is made. Illegal combinations of
	// options are errors here.
	Policy(ctx context.Context, options Options) (Policy, error)

	// Update is called once per optimizer step, on every rank, after the
	// gradients were reduced and checked on all ranks. It returns the scale
	// for the next step. It must depend on the sequence of arguments alone,
	// so that ranks agree without talking.
	Update(ctx context.Context, foundInf bool) (ScaleState, error)

	// State and Load carry the scaler through a checkpoint, by the names
	// PyTorch uses; the scale of the next step is "scale" or "loss_scale". An
	// empty map means there is nothing to keep.
	State(ctx context.Context) (map[string]float64, error)
	Load(ctx context.Context, state map[string]float64) error

	Close() error
}

// Cast is what a policy does to the inputs of one op type.
type Cast = contract.Cast

// The casts of torch.autocast.
const (
	CastNone    = contract.CastNone    // run in whatever type the inputs have
	CastLower   = contract.CastLower   // cast floating inputs to the policy's Lower type
	CastF32     = contract.CastF32     // cast floating inputs to float32
	CastPromote = contract.CastPromote // cast floating inputs to the widest among them
	CastBanned  = contract.CastBanned  // refuse the op, naming the alternative
)

// Policy is the precision of a run as the plan needs it.
type Policy = contract.Policy

// ScaleState is the scaler after an update.
type ScaleState struct {
	Scale   float64 // for the next step
	Skip    bool    // the optimizer must not apply this step
	Skipped uint64  // steps skipped in a row
}
