package train

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// feedback is what compression has left out of the gradients so far (PowerSGD's
// error feedback), on its way between ranks and checkpoints.
type feedback struct {
	rank, world int
	group       *ddp.Group
	memory      *memory
	device      *deviceMemory
	reducer     *ddp.Reducer

	restored  [][]tensor.Named // by rank: from a checkpoint; rank 0, until they are distributed
	collected []tensor.Named   // of all ranks, on rank 0, for a checkpoint
}

// collect gathers the compression errors of all ranks in collected, on rank 0. All
// ranks call it.
func (f *feedback) collect() error {
	if err := f.device.wait(); err != nil { // for the last copy of a bucket
		return err
	}
	var out []tensor.Named
	own := f.reducer.Errors()
	for r := range f.world {
		dst := own
		if f.rank == 0 {
			dst = fresh(own)
		}
		if err := f.group.Send(tensors(own), tensors(dst), r, 0, f.memory.staging()); err != nil {
			return fmt.Errorf("collecting the compression errors of rank %d: %w", r, err)
		}
		for _, e := range dst {
			out = append(out, tensor.Named{Name: fmt.Sprintf("error.%d.%s", r, e.Name), Tensor: e.Tensor})
		}
	}
	if f.rank != 0 {
		return nil
	}
	for _, q := range f.reducer.Factors() {
		out = append(out, tensor.Named{Name: "q." + q.Name, Tensor: q.Tensor})
	}
	f.collected = out
	return nil
}

// take returns what was collected, once.
func (f *feedback) take() []tensor.Named {
	out := f.collected
	f.collected = nil
	return out
}

// restore prepares rank 0 to distribute what a checkpoint of a job of world
// ranks has, and says what of it does not fit. compress is ddp.compress.
func (f *feedback) restore(compress string, saved []tensor.Named, world int) (notes []string) {
	if compress != "powersgd" || f.world == 1 {
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
	for _, q := range f.reducer.Factors() {
		put(q.Tensor, "q."+q.Name)
	}
	own := f.reducer.Errors()
	for r := range world {
		errs := fresh(own)
		for _, e := range errs {
			put(e.Tensor, fmt.Sprintf("error.%d.%s", r, e.Name))
		}
		f.restored = append(f.restored, errs)
	}
	if missing > 0 && len(saved) > 0 {
		notes = append(notes, fmt.Sprintf("%d PowerSGD matrices are missing in the checkpoint or have another shape, and are initialized again", missing))
	}
	if world != f.world {
		f.restored = spread(f.restored, f.world)
		if len(saved) > 0 {
			notes = append(notes, fmt.Sprintf("the PowerSGD errors of %d ranks are distributed evenly among %d ranks", world, f.world))
		}
	}
	return notes
}

// spread gives every rank of a new world the mean, so that the average over
// ranks stays what it was.
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
func (f *feedback) distribute() error {
	own := tensors(f.reducer.Errors())
	for r := range f.world {
		src := own
		if f.rank == 0 {
			src = tensors(f.restored[r])
		}
		if err := f.group.Send(src, own, 0, r, f.memory.staging()); err != nil {
			return err
		}
	}
	return f.group.BroadcastTensors(tensors(f.reducer.Factors()), f.memory.staging(), 0)
}

func tensors(named []tensor.Named) []tensor.Tensor {
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
