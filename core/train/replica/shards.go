package replica

import (
	"fmt"
	"strings"

	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// Shards divides the optimizer's work among the ranks (ZeRO stage 1, Rajbhandari et al.,
// 2020): each rank updates some parameters, and it alone has their state and master
// copies. All ranks have all weights and averaged gradients, so norms are those of an
// undivided run, and so is every bit of a parameter.
type Shards struct {
	Rank   int
	Group  *ddp.Group
	Memory *Memory
	Model  *Model

	owner   map[string]int // by parameter's name; nil: every rank updates all
	parts   []ddp.Region   // by rank: the weights that it updates
	tickets []uint64

	Restored []tensor.Named // from a checkpoint; rank 0, until they are distributed
	collected
}

// Divide decides which rank updates which of the trained parameters.
func (s *Shards) Divide() {
	var sizes, params []int
	names := make([]string, len(s.Model.Graph.Params()))
	for _, e := range s.Model.Graph.StateDict() {
		if !e.Buffer && s.Model.Graph.Params()[e.Index].RequiresGrad {
			sizes, params = append(sizes, s.Model.Graph.Params()[e.Index].Shape.Elems()), append(params, e.Index)
			names[e.Index] = e.Name
		}
	}
	world := s.Group.World
	s.owner, s.parts, s.tickets = map[string]int{}, make([]ddp.Region, world), make([]uint64, world)
	for i, rank := range ddp.Owners(sizes, world) {
		at := s.Memory.Params[params[i]]
		s.owner[names[params[i]]] = rank
		if s.parts[rank].Size == 0 {
			s.parts[rank].Offset = at.Offset
		}
		s.parts[rank].Size = at.Offset + at.Size - s.parts[rank].Offset
	}
}

// Divided reports whether ranks update different parameters.
func (s *Shards) Divided() bool { return s.owner != nil }

// Owns reports whether this rank updates a parameter.
func (s *Shards) Owns(name string) bool { return !s.Divided() || s.owner[name] == s.Rank }

// Publish gives all ranks the weights that each has updated.
func (s *Shards) Publish() error {
	if err := s.Group.BroadcastParts(s.parts, s.tickets); err != nil {
		return fmt.Errorf("broadcasting the updated weights: %w", err)
	}
	return nil
}

// Common reports whether a tensor of the optimizer's state is the same on all ranks.
func (s *Shards) Common(state string) bool { return !s.Divided() || !strings.Contains(state, ".") }

// ownerOf is the rank that has a tensor of the state, named after its kind and parameter.
func (s *Shards) ownerOf(state string) int {
	_, param, _ := strings.Cut(state, ".")
	return s.owner[param]
}

// Collect gathers the state of all ranks on rank 0. All ranks call it.
func (s *Shards) Collect(o *optim.Optimizer) error {
	var all []tensor.Named
	for _, e := range o.State() {
		if from := s.ownerOf(e.Name); from != 0 {
			if e.Data == nil {
				e.Tensor = tensor.New(e.DType, e.Shape...)
			}
			if err := s.send(e, e, from, 0); err != nil {
				return err
			}
		}
		if s.Rank == 0 {
			all = append(all, e)
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
		to := s.ownerOf(e.Name)
		if to == 0 || !state && !strings.HasPrefix(e.Name, "master.") {
			continue
		}
		if e.Data == nil {
			e.Tensor = tensor.New(e.DType, e.Shape...)
		}
		from := e
		if have, ok := source[e.Name]; ok && s.Rank == 0 {
			from.Tensor = have
		}
		if err := s.send(from, e, 0, to); err != nil {
			return err
		}
	}
	return nil
}

// source is what rank 0 has of the other ranks' parts.
func (s *Shards) source() map[string]tensor.Tensor {
	have := map[string]tensor.Tensor{}
	for _, e := range s.Model.Graph.StateDict() {
		if !e.Buffer && s.Model.Masters[e.Index].Data != nil {
			have["master."+e.Name] = s.Model.Masters[e.Index]
		}
	}
	for _, e := range s.Restored {
		have[e.Name] = e.Tensor
	}
	for name := range s.owner { // of checkpoints in which all parameters had one count of steps
		if _, own := have["step."+name]; !own {
			if all, ok := have["step"]; ok {
				have["step."+name] = all
			}
		}
	}
	return have
}

func (s *Shards) send(src, dst tensor.Named, from, to int) error {
	if err := s.Group.Send([]tensor.Tensor{src.Tensor}, []tensor.Tensor{dst.Tensor}, from, to, s.Memory.between()); err != nil {
		return fmt.Errorf("sending %s from rank %d to rank %d: %w", src.Name, from, to, err)
	}
	return nil
}

// release drops what rank 0 has of other ranks' parts.
func (s *Shards) release() {
	if s.Restored = nil; !s.Divided() || s.Rank != 0 {
		return
	}
	for _, e := range s.Model.Graph.StateDict() {
		if !e.Buffer && !s.Owns(e.Name) {
			s.Model.Masters[e.Index] = tensor.Tensor{}
		}
	}
}
