package replica

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// Model is what a rank trains: tensors in the memory that it shares with its
// backend, and master copies. Its tensors stay the same, gradients
// move with the buckets.
type Model struct {
	Network string // model.name
	Graph   *graph.Graph
	Values  []tensor.Tensor // state-dict order, as the model computes with them
	Grads   []tensor.Tensor // by parameter, views of the buckets
	Masters []tensor.Tensor // by parameter; zero where the value itself is updated
}

// Checkpoints hold the model in float32 (float64 for reference runs), even if it computes in a half
// type, so that they can be loaded anywhere.

// fileType is the type in which a tensor of the model is saved.
func fileType(d tensor.DType) tensor.DType {
	if d.Half() {
		return tensor.F32
	}
	return d
}

// Full returns the model in the types of a checkpoint: its own tensors where they have that type,
// else copies.
func (m *Model) Full() []tensor.Tensor {
	ts := make([]tensor.Tensor, len(m.Values))
	for i, v := range m.Values {
		if ts[i] = v; v.DType.Half() {
			ts[i] = tensor.New(fileType(v.DType), v.Shape...)
			convertTensor(ts[i], v)
		}
	}
	return ts
}

// PutFull copies what Full returned, once it was changed, to the model and its master copies.
func (m *Model) PutFull(full []tensor.Tensor) {
	for i, e := range m.Graph.StateDict() {
		if m.Values[i].DType.Half() {
			convertTensor(m.Values[i], full[i])
		}
		if !e.Buffer && m.Masters[e.Index].Data != nil {
			convertTensor(m.Masters[e.Index], full[i])
		}
	}
}

// Named gives tensors in state-dict order their names.
func (m *Model) Named(ts []tensor.Tensor) []tensor.Named {
	out := make([]tensor.Named, len(ts))
	for i, e := range m.Graph.StateDict() {
		out[i] = tensor.Named{Name: e.Name, Tensor: ts[i]}
	}
	return out
}

// Assign copies tensors with the model's names, with or without "module.",
// into the model, and into the master copies at full precision. Floating
// types are converted to float; what a file may leave out keeps its value. After an error
// the model may be changed in part.
func (m *Model) Assign(src []tensor.Named, float tensor.DType) (notes []string, err error) {
	full := m.Full()
	src, notes, err = nn.Adapt(m.Network, m.Graph, src)
	if err != nil {
		return nil, err
	}
	filled, err := checkpoint.Fill(m.Named(full), floatsAs(float, src))
	if err != nil {
		return nil, err
	}
	m.PutFull(full)
	return append(notes, filled...), nil
}

// floatsAs converts the floating tensors of a file to d, and leaves the others.
func floatsAs(d tensor.DType, src []tensor.Named) []tensor.Named {
	out := make([]tensor.Named, len(src))
	for i, s := range src {
		out[i] = s
		if s.DType.Float() && s.DType != d {
			out[i].Tensor = tensor.New(d, s.Shape...)
			convertTensor(out[i].Tensor, s.Tensor)
		}
	}
	return out
}

func convertTensor(dst, src tensor.Tensor) {
	if dst.DType == src.DType {
		copy(dst.Data, src.Data)
		return
	}
	convert.Convert(dst.DType, dst.Data, src.DType, src.Data)
}

// Aliases are the other names of tied parameters, with their first ones.
func (m *Model) Aliases() map[string]string {
	out := map[string]string{}
	for _, a := range m.Graph.Aliases() {
		out[a.Name] = m.Graph.Params()[a.Param].Name
	}
	return out
}

// liveMasters are the master copies that exist.
func (m *Model) liveMasters() (ts []tensor.Tensor) {
	for _, v := range m.Masters {
		if v.Data != nil {
			ts = append(ts, v)
		}
	}
	return ts
}

// FirstNonFinite names the first parameter on the host that is not finite; "" if all are.
func (m *Model) FirstNonFinite() string {
	var params []tensor.Named
	for i, e := range m.Graph.StateDict() {
		if !e.Buffer {
			params = append(params, tensor.Named{Name: e.Name, Tensor: m.Values[i]})
		}
	}
	return checkpoint.FirstNonFinite(params)
}

// FirstNonFiniteGradient names the first parameter whose gradient on the host is not finite.
func (m *Model) FirstNonFiniteGradient() string {
	for i, g := range m.Grads {
		if g.Data != nil && !optim.AllFinite(g) {
			return m.Graph.Params()[i].Name
		}
	}
	return ""
}
