package train

import (
	"context"
	"fmt"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/recovery"
)

// carryOver collects on rank 0 what compression keeps of all ranks. All ranks
// call it; the others get nil.
func (t *Trainer) carryOver(ctx context.Context) ([]tensor.Named, error) {
	if !t.reducer.HasFeedback() {
		return nil, nil
	}
	err := t.recovery.Do(ctx, recovery.Stage{Name: stageFeedback}, func(context.Context) error { return t.collectCarried() })
	out := t.collected
	t.collected = nil
	return out, err
}

func (t *Trainer) collectCarried() error {
	if err := t.device.wait(); err != nil { // the staging's last copy
		return err
	}
	var out []tensor.Named
	mine := t.reducer.Errors()
	for r := range t.World.Size {
		dst := mine
		if t.World.Rank == 0 {
			dst = fresh(mine)
		}
		if err := t.group.Send(tensors(mine), tensors(dst), r, 0, t.memory.staging()); err != nil {
			return fmt.Errorf("collecting rank %d's errors of compression: %w", r, err)
		}
		for _, e := range dst {
			out = append(out, tensor.Named{Name: fmt.Sprintf("error.%d.%s", r, e.Name), Tensor: e.Tensor})
		}
	}
	if t.World.Rank != 0 {
		return nil
	}
	for _, q := range t.reducer.Factors() {
		out = append(out, tensor.Named{Name: "q." + q.Name, Tensor: q.Tensor})
	}
	t.collected = out
	return nil
}

// takeOver prepares rank 0 to hand on what a checkpoint of a job of world ranks
// carries over, and says what of it does not fit.
func (t *Trainer) takeOver(saved []tensor.Named, world int) (notes []string) {
	if t.Settings.DDP.Compress != "powersgd" || t.World.Size == 1 {
		if len(saved) > 0 {
			notes = append(notes, "what powersgd had left out of the gradients is dropped: this run does not use it")
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
	for _, q := range t.reducer.Factors() {
		put(q.Tensor, "q."+q.Name)
	}
	mine := t.reducer.Errors()
	for r := range world {
		errs := fresh(mine)
		for _, e := range errs {
			put(e.Tensor, fmt.Sprintf("error.%d.%s", r, e.Name))
		}
		t.carried = append(t.carried, errs)
	}
	if missing > 0 && len(saved) > 0 {
		notes = append(notes, fmt.Sprintf("%d of powersgd's matrices are not in the checkpoint, or have another shape, and begin anew", missing))
	}
	if world != t.World.Size {
		t.carried = spread(t.carried, t.World.Size)
		if len(saved) > 0 {
			notes = append(notes, fmt.Sprintf("what powersgd had left out on %d ranks is shared out evenly among %d", world, t.World.Size))
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
			kernel.Axpy(mean[i].F32(), 1/float32(len(old)), e.F32())
		}
	}
	all := make([][]tensor.Named, world)
	for r := range all {
		all[r] = mean
	}
	return all
}

// handOut gives every rank its part of what rank 0 has taken over. It may be
// done again until the first step.
func (t *Trainer) handOut() error {
	mine := tensors(t.reducer.Errors())
	for r := range t.World.Size {
		src := mine
		if t.World.Rank == 0 {
			src = tensors(t.carried[r])
		}
		if err := t.group.Send(src, mine, 0, r, t.memory.staging()); err != nil {
			return err
		}
	}
	return t.group.BroadcastTensors(tensors(t.reducer.Factors()), t.memory.staging(), 0)
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
