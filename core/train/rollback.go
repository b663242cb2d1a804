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
	t := r.t
	t.device.fail(t.device.downloadBuffers())
	t.kept = append(t.kept[:0], t.memory.bytes(t.memory.buffers)...)
	t.reducer.Save()
}

// Rollback goes back to Save, and to the step's first batch.
func (r runState) Rollback() error {
	t := r.t
	copy(t.memory.bytes(t.memory.buffers), t.kept)
	if err := errors.Join(t.device.uploadBuffers(), t.reducer.Rollback()); err != nil {
		return err
	}
	return t.feeder.Start(t.pos.Epoch, t.pos.Offset)
}

// Rebroadcast repeats the broadcast of a stage.
func (r runState) Rebroadcast(stage string) error {
	switch stage {
	case stageWeights:
		return r.t.shareWeights()
	case stageBuffers:
		return r.t.shareBuffers()
	case stageFeedback:
		return r.t.collectCarried()
	}
	panic("train: no broadcast " + stage)
}
