package replica

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// Feedback moves the compression errors of the gradients (PowerSGD's error feedback) between ranks
// and checkpoints.
type Feedback struct {
	Rank, World int
	Group       *ddp.Group
	Memory      *Memory
	Device      *Device
	Reducer     *ddp.Reducer

	Restored [][]tensor.Named // by rank: from a checkpoint; rank 0, until they are distributed
	collected
}

// collected are tensors of all ranks, on rank 0, for a checkpoint.
type collected struct{ tensors []tensor.Named }

// Take returns what was collected, once.
func (c *collected) Take() []tensor.Named {
	out := c.tensors
	c.tensors = nil
	return out
}

// Collect gathers the compression errors of all ranks in collected, on rank 0. All
// ranks call it.
func (f *Feedback) Collect() error {
	if err := f.Device.Wait(); err != nil { // for the last copy of a bucket
		return err
	}
	var out []tensor.Named
	own := f.Reducer.Errors()
	for r := range f.World {
		dst := own
		if f.Rank == 0 {
			dst = fresh(own)
		}
		if err := f.Group.Send(Tensors(own), Tensors(dst), r, 0, f.Memory.staging()); err != nil {
			return fmt.Errorf("collecting the compression errors of rank %d: %w", r, err)
		}
		for _, e := range dst {
			out = append(out, tensor.Named{Name: fmt.Sprintf("error.%d.%s", r, e.Name), Tensor: e.Tensor})
		}
	}
	if f.Rank != 0 {
		return nil
	}
	for _, q := range f.Reducer.Factors() {
		out = append(out, tensor.Named{Name: "q." + q.Name, Tensor: q.Tensor})
	}
	f.tensors = out
	return nil
}

// Restore prepares rank 0 to distribute the feedback in a checkpoint of a job of world
// ranks, and returns notes about what it had to drop. compress is ddp.compress.
func (f *Feedback) Restore(compress string, saved []tensor.Named, world int) (notes []string) {
	if compress != "powersgd" || f.World == 1 {
		if len(saved) > 0 {
			notes = append(notes, "the PowerSGD errors in the checkpoint are dropped: this run does not use PowerSGD")
		}
		return notes
	}
	have := make(map[string]tensor.Tensor, len(saved))
	for _, s := range saved {
		have[s.Name] = s.Tensor
	}
	missing := 0
	put := func(dst tensor.Tensor, name string) {
		if src, ok := have[name]; ok && src.DType == dst.DType && src.Shape.Equal(dst.Shape) {
			copy(dst.Data, src.Data)
		} else {
			missing++
		}
	}
	for _, q := range f.Reducer.Factors() {
		put(q.Tensor, "q."+q.Name)
	}
	own := f.Reducer.Errors()
	for r := range world {
		errs := fresh(own)
		for _, e := range errs {
			put(e.Tensor, fmt.Sprintf("error.%d.%s", r, e.Name))
		}
		f.Restored = append(f.Restored, errs)
	}
	if missing > 0 && len(saved) > 0 {
		notes = append(notes, fmt.Sprintf("%d PowerSGD matrices are missing in the checkpoint or have another shape, and are initialized again", missing))
	}
	if world != f.World {
		f.Restored = spread(f.Restored, f.World)
		if len(saved) > 0 {
			notes = append(notes, fmt.Sprintf("the PowerSGD errors of %d ranks are distributed evenly among %d ranks", world, f.World))
		}
	}
	return notes
}

// spread gives every rank of a new world the mean, so that the average over ranks does not change.
func spread(old [][]tensor.Named, world int) [][]tensor.Named {
	mean := fresh(old[0])
	for _, errs := range old {
		for i, e := range errs {
			elementwise.Axpy(mean[i].F32(), 1/float32(len(old)), e.F32())
		}
	}
	all := make([][]tensor.Named, world)
	for r := range all {
		all[r] = mean
	}
	return all
}

// distribute sends every rank its part of what rank 0 has restored. It may be repeated
// until the first step.
func (f *Feedback) distribute() error {
	own := Tensors(f.Reducer.Errors())
	for r := range f.World {
		src := own
		if f.Rank == 0 {
			src = Tensors(f.Restored[r])
		}
		if err := f.Group.Send(src, own, 0, r, f.Memory.staging()); err != nil {
			return err
		}
	}
	return f.Group.BroadcastTensors(Tensors(f.Reducer.Factors()), f.Memory.staging(), 0)
}

// Tensors drops the names.
func Tensors(named []tensor.Named) []tensor.Tensor {
	ts := make([]tensor.Tensor, len(named))
	for i, n := range named {
		ts[i] = n.Tensor
	}
	return ts
}

// fresh are zero tensors of the same names and shapes.
func fresh(like []tensor.Named) []tensor.Named {
	out := make([]tensor.Named, len(like))
	for i, l := range like {
		out[i] = tensor.Named{Name: l.Name, Tensor: tensor.New(l.DType, l.Shape...)}
	}
	return out
}
