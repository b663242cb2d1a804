package train

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// replication makes ranks replicas of one of them: by broadcasts of the weights
// when a run begins, and of buffers, which each rank changes in its own passes.
type replication struct {
	rank, world int
	group       *ddp.Group
	memory      *memory
	model       *model
	device      *deviceMemory
	feedback    feedback

	head  resumeHead // what comes with the weights
	saved []byte     // buffers before the step under way
}

// weights gives all ranks rank 0's tensors.
func (r *replication) weights(o *optim.Optimizer) error {
	if err := r.group.Broadcast(r.memory.all, 0); err != nil {
		return fmt.Errorf("broadcasting the weights: %w", err)
	}
	staging := ddp.Region{Size: r.memory.all.Offset}
	if err := r.group.BroadcastTensors(r.model.liveMasters(), staging, 0); err != nil {
		return fmt.Errorf("broadcasting the master weights: %w", err)
	}
	if r.head.State {
		var state []tensor.Tensor
		for _, s := range o.State() {
			state = append(state, s.Tensor)
		}
		if err := r.group.BroadcastTensors(state, staging, 0); err != nil {
			return fmt.Errorf("broadcasting the optimizer's state: %w", err)
		}
	}
	if r.head.Feedback {
		if err := r.feedback.distribute(); err != nil {
			return fmt.Errorf("distributing what compression has left out: %w", err)
		}
	}
	return r.device.upload()
}

// release drops what weights would need to be repeated. A step has ended, so that no
// rank can have missed them.
func (r *replication) release() { r.feedback.restored = nil }

// buffers gives all ranks the buffers of one.
func (r *replication) buffers(from int) error {
	if r.world == 1 {
		return nil
	}
	if r.rank == from {
		if err := r.device.downloadBuffers(); err != nil {
			return err
		}
		return r.group.Broadcast(r.memory.buffers, from)
	}
	if err := r.group.Broadcast(r.memory.buffers, from); err != nil {
		return err
	}
	return r.device.uploadBuffers()
}

// save copies the buffers, and rollback goes back to them.
func (r *replication) save() {
	r.device.fail(r.device.downloadBuffers())
	r.saved = append(r.saved[:0], r.memory.bytes(r.memory.buffers)...)
}

func (r *replication) rollback() error {
	copy(r.memory.bytes(r.memory.buffers), r.saved)
	return r.device.uploadBuffers()
}
