package ddp

import (
	"github.com/trainctl/trainctl/core/tensor"
)

// The state that PowerSGD carries from one step to the next (error feedback) does not depend on how
// parameters are assigned to buckets, so a run may be resumed with other buckets.

// HasFeedback reports whether the next step depends on more than its gradients: on the error that
// compression has made so far.
func (r *Reducer) HasFeedback() bool {
	return r.group.World > 1 && r.factors.step > r.factors.start && len(r.factors.low) > 0
}

// Factors are the matrices with which the next step begins, by the name of the
// parameter; they are equal on all ranks. The tensors are views.
func (r *Reducer) Factors() (out []tensor.Named) {
	for _, s := range r.factors.low {
		for _, m := range s.mats {
			q := s.second[m.q:][:m.cols*m.r]
			out = append(out, tensor.Named{Name: r.ready.names[m.param], Tensor: tensor.Of(tensor.F32, tensor.Shape{m.cols, m.r}, tensor.Bytes(q))})
		}
	}
	return out
}

// Errors are the compression errors of this rank's gradients so far, by the name of the parameter.
// The tensors are views.
func (r *Reducer) Errors() (out []tensor.Named) {
	for _, s := range r.factors.low {
		for _, m := range s.mats {
			e := s.residue[m.at:][:m.rows*m.cols]
			out = append(out, tensor.Named{Name: r.ready.names[m.param], Tensor: tensor.Of(tensor.F32, m.shape, tensor.Bytes(e))})
		}
	}
	return out
}
