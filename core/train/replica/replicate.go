package replica

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// Replication makes ranks replicas of one of them: by broadcasts of the weights
// when a run begins, and of buffers, which each rank changes in its own passes.
type Replication struct {
	Rank, World int
	Group       *ddp.Group
	Memory      *Memory
	Model       *Model
	Device      *Device
	Feedback    Feedback
	Shards      Shards
	Averaging   Averaging

	WithState    bool   // the optimizer's state comes with the weights
	WithFeedback bool   // and so do the compression errors
	saved        []byte // buffers before the step under way
}

// Weights gives all ranks rank 0's tensors.
func (r *Replication) Weights(o *optim.Optimizer) error {
	if err := r.Group.Broadcast(r.Memory.All, 0); err != nil {
		return fmt.Errorf("broadcasting the weights: %w", err)
	}
	if err := r.optimizer(o); err != nil {
		return err
	}
	if r.WithFeedback {
		if err := r.Feedback.distribute(); err != nil {
			return fmt.Errorf("distributing what compression has left out: %w", err)
		}
	}
	return r.Device.Upload()
}

// optimizer gives all ranks rank 0's master weights, and the optimizer's state if it came with the weights.
func (r *Replication) optimizer(o *optim.Optimizer) error {
	if r.Shards.Divided() {
		return r.Shards.distribute(o, r.WithState)
	}
	staging := r.Memory.between()
	if err := r.Group.BroadcastTensors(r.Model.liveMasters(), staging, 0); err != nil {
		return fmt.Errorf("broadcasting the master weights: %w", err)
	}
	if !r.WithState {
		return nil
	}
	var state []tensor.Tensor
	for _, s := range o.State() {
		state = append(state, s.Tensor)
	}
	for _, s := range r.Averaging.Outer.State() {
		state = append(state, s.Tensor)
	}
	if err := r.Group.BroadcastTensors(state, staging, 0); err != nil {
		return fmt.Errorf("broadcasting the optimizer's state: %w", err)
	}
	return nil
}

// Release drops what weights would need to be repeated. A step has ended, so that no
// rank can have missed them.
func (r *Replication) Release() {
	r.Feedback.Restored = nil
	r.Shards.release()
}

// Buffers gives all ranks the buffers of one.
func (r *Replication) Buffers(from int) error {
	if r.World == 1 {
		return nil
	}
	if r.Rank == from {
		if err := r.Device.downloadBuffers(); err != nil {
			return err
		}
		return r.Group.Broadcast(r.Memory.Buffers, from)
	}
	if err := r.Group.Broadcast(r.Memory.Buffers, from); err != nil {
		return err
	}
	return r.Device.uploadBuffers()
}

// Save copies the buffers, and rollback restores them.
func (r *Replication) Save() {
	r.Device.Fail(r.Device.downloadBuffers())
	r.saved = append(r.saved[:0], r.Memory.Bytes(r.Memory.Buffers)...)
}

// Rollback restores the buffers that Save copied.
func (r *Replication) Rollback() error {
	copy(r.Memory.Bytes(r.Memory.Buffers), r.saved)
	return r.Device.uploadBuffers()
}
