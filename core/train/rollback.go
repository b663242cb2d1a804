package train

import (
	"errors"
)

// The stages that end with a broadcast.
const (
	stageWeights  = "weights"  // the model, once at the beginning
	stageBuffers  = "buffers"  // batch statistics
	stageFeedback = "feedback" // what compression has left out, for a checkpoint
)

// runState is the run as recovery sees it.
type runState struct{ t *Trainer }

// Step is the step under way.
func (r runState) Step() int { return r.t.pos.Step + 1 }

// Save copies what the passes of a step change beside gradients: the weights
// change only after them.
func (r runState) Save() {
	r.t.replication.save()
	r.t.reducer.Save()
}

// Rollback goes back to Save, and to the step's first batch.
func (r runState) Rollback() error {
	t := r.t
	if err := errors.Join(t.replication.rollback(), t.reducer.Rollback()); err != nil {
		return err
	}
	return t.feeder.Start(t.pos.Epoch, t.pos.Offset)
}

// Rebroadcast repeats the broadcast of a stage.
func (r runState) Rebroadcast(stage string) error {
	t := r.t
	switch stage {
	case stageWeights:
		return t.replication.weights(t.updater.optimizer)
	case stageBuffers:
		return t.replication.buffers(t.join.authority)
	case stageFeedback:
		return t.replication.feedback.collect()
	}
	panic("train: no broadcast " + stage)
}
