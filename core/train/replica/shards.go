package replica

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/outline"
)

// Shards divides the optimizer's work among the ranks (ZeRO stage 1, Rajbhandari et al., 2020):
// each rank updates an equal part of every bucket, and it alone has the state and master copies of
// these elements. Weights are laid out as their gradients are in the buckets, so that all-gathers
// put them in place.
type Shards struct {
	Rank   int
	Group  *ddp.Group
	Memory *Memory
	Model  *Model

	parts   map[string][]tensor.Part // by parameter and rank; nil: every rank updates all
	buckets []ddp.Bucket
	tickets []uint64 // by bucket
	sent    int      // buckets of weights that are on their way
	err     error    // of sending them

	Restored []tensor.Named // from a checkpoint; rank 0, until they are distributed
	collected
}

// Divide decides which rank updates which elements of the outline's parameters.
func (s *Shards) Divide(o *outline.Outline) {
	s.parts, s.buckets, s.tickets = map[string][]tensor.Part{}, o.Buckets, make([]uint64, len(o.Buckets))
	for _, b := range o.Buckets {
		for i, p := range b.Params {
			parts := make([]tensor.Part, s.Group.World)
			for r := range parts {
				parts[r] = b.Part(i, o.Gradients[p].Shape.Elems(), r, s.Group.World)
			}
			s.parts[o.Gradients[p].Name] = parts
		}
	}
}

// Divided reports whether ranks update different elements.
func (s *Shards) Divided() bool { return s.parts != nil }

// Own is the part of a parameter that this rank updates; nil: all of it.
func (s *Shards) Own(name string) *tensor.Part {
	if !s.Divided() {
		return nil
	}
	return &s.parts[name][s.Rank]
}

// Send starts to give all ranks the weights of a bucket, of which each has updated its part.
// An error is kept for Publish.
func (s *Shards) Send(bucket int) {
	if s.sent = bucket + 1; s.err == nil {
		s.tickets[bucket], s.err = s.Group.StartGather(s.Memory.Weights[bucket], s.buckets[bucket].DType)
	}
}

// Publish returns when all ranks have all weights. It sends those that Send has not sent; when it
// is called again, it sends all.
func (s *Shards) Publish() error {
	for b := s.sent; b < len(s.buckets); b++ {
		s.Send(b)
	}
	for b := range s.buckets {
		if s.err == nil {
			s.err = s.Group.FinishGather(s.tickets[b], s.Memory.Weights[b])
		}
	}
	err := s.err
	if s.sent, s.err = 0, nil; err != nil {
		return fmt.Errorf("gathering the updated weights: %w", err)
	}
	return nil
}

// Common reports whether a tensor of the optimizer's state is the same on all ranks.
func (s *Shards) Common(state string) bool {
	kind, _, of := strings.Cut(state, ".")
	return !s.Divided() || !of || kind == "step"
}

// Scattered reports whether ranks have different parts of the state. An optimizer may have none.
func (s *Shards) Scattered(o *optim.Optimizer) bool {
	return slices.ContainsFunc(o.State(), func(e tensor.Named) bool { return !s.Common(e.Name) })
}

// partsOf are the parts, by rank, of a tensor of the state, which is named after its kind and parameter.
func (s *Shards) partsOf(state string) []tensor.Part {
	_, param, _ := strings.Cut(state, ".")
	return s.parts[param]
}

// Collect gathers the state of all ranks on rank 0. All ranks call it.
func (s *Shards) Collect(o *optim.Optimizer) error {
	var all []tensor.Named
	for _, e := range o.State() {
		whole := e
		if !s.Common(e.Name) {
			if s.Rank == 0 {
				whole.Tensor = tensor.New(e.DType, e.Shape...)
			}
			for rank, part := range s.partsOf(e.Name) {
				if err := s.send(e, part, e.Data, bytesOf(whole.Tensor, part, s.Rank == 0), rank, 0); err != nil {
					return err
				}
			}
		}
		if s.Rank == 0 {
			all = append(all, whole)
		}
	}
	s.tensors = all
	return nil
}

// distribute gives each rank its part of rank 0's master copies and, if asked to, of the
// state in a checkpoint.
func (s *Shards) distribute(o *optim.Optimizer, state bool) error {
	source := s.source()
	for _, e := range o.State() {
		if s.Common(e.Name) {
			if state {
				if err := s.Group.BroadcastTensors([]tensor.Tensor{e.Tensor}, s.Memory.between(), 0); err != nil {
					return err
				}
			}
			continue
		}
		if !state && !strings.HasPrefix(e.Name, "master.") {
			continue
		}
		for rank, part := range s.partsOf(e.Name) {
			if err := s.send(e, part, bytesOf(source[e.Name], part, s.Rank == 0), e.Data, 0, rank); err != nil {
				return err
			}
		}
	}
	return nil
}

// source returns the state from which rank 0 sends all ranks their parts.
func (s *Shards) source() map[string]tensor.Tensor {
	have := map[string]tensor.Tensor{}
	if s.Rank != 0 {
		return have
	}
	for _, e := range s.Model.Graph.StateDict() {
		if !e.Buffer && s.Model.Masters[e.Index].Data != nil {
			have["master."+e.Name] = s.Model.Masters[e.Index]
		}
	}
	for _, e := range s.Restored {
		have[e.Name] = e.Tensor
	}
	return have
}

// bytesOf are those of a part of a tensor, on the rank that has the tensor.
func bytesOf(whole tensor.Tensor, part tensor.Part, here bool) []byte {
	if !here {
		return nil
	}
	return part.Of(whole).Data
}

// send copies a part of a state tensor from src of one rank to dst of another.
func (s *Shards) send(state tensor.Named, part tensor.Part, src, dst []byte, from, to int) error {
	if err := s.Group.SendBytes(src, dst, part.Len()*state.DType.Size(), from, to, s.Memory.between()); err != nil {
		return fmt.Errorf("sending %s from rank %d to rank %d: %w", state.Name, from, to, err)
	}
	return nil
}

// release drops what rank 0 has of other ranks' parts.
func (s *Shards) release() {
	if s.Restored = nil; !s.Divided() || s.Rank != 0 {
		return
	}
	for i := range s.Model.Masters {
		s.Model.Masters[i] = tensor.Tensor{}
	}
}
