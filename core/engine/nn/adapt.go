package nn

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// adapter makes the tensors of another library's file those of a model.
type adapter struct {
	g     *graph.Graph
	file  []tensor.Named
	notes []string
}

// Adapt gives the tensors of a file the names and shapes of the model called name, as
// far as they differ because of who wrote it: transformers' and the original GPT-2's names, the
// [in, out] weights of its Conv1D, the older names of torchvision, tensors that are no
// parameters, and the other names of tied weights. What it does not know it leaves
// alone. Tensors that it changes are copies. notes say what was changed; the
// error is a tied weight with two values.
func Adapt(name string, g *graph.Graph, file []tensor.Named) (adapted []tensor.Named, notes []string, err error) {
	a := &adapter{g: g, file: slices.Clone(file)}
	if adapt := models[name].adapt; adapt != nil {
		adapt(a)
	}
	err = a.untie()
	return a.file, a.notes, err
}

// drop leaves out tensors that are no parameters.
func (a *adapter) drop(what string, is func(name string) bool) {
	before := len(a.file)
	a.file = slices.DeleteFunc(a.file, func(t tensor.Named) bool { return is(t.Name) })
	if n := before - len(a.file); n > 0 {
		a.notes = append(a.notes, fmt.Sprintf("left out %d %s", n, what))
	}
}

func (a *adapter) rename(to func(name string) string) {
	for i := range a.file {
		a.file[i].Name = to(a.file[i].Name)
	}
}

// find is the index of the tensor whose name ends so, −1 without one.
func (a *adapter) find(suffix string) int {
	return slices.IndexFunc(a.file, func(t tensor.Named) bool { return t.Name == suffix || strings.HasSuffix(t.Name, "."+suffix) })
}

// untie leaves out the other names of tied weights, or gives the tensor its first name
// where the file has only another one.
func (a *adapter) untie() error {
	for _, alias := range a.g.Aliases() {
		first := a.g.Params()[alias.Param].Name
		i, j := a.find(alias.Name), a.find(first)
		switch {
		case i < 0:
		case j < 0:
			a.file[i].Name = strings.TrimSuffix(a.file[i].Name, alias.Name) + first
		case !bytes.Equal(a.file[i].Data, a.file[j].Data):
			return fmt.Errorf("%s and %s differ, but the model ties them", alias.Name, first)
		default:
			a.file = slices.Delete(a.file, i, i+1)
		}
	}
	return nil
}

// adaptGPT2 reads files of transformers, whose linear layers are Conv1D with weights
// [in, out], and of the original release, whose names lack "transformer.".
func adaptGPT2(a *adapter) {
	a.drop("causal masks", func(name string) bool {
		return strings.HasSuffix(name, ".attn.bias") || strings.HasSuffix(name, ".attn.masked_bias") || strings.HasSuffix(name, ".crossattention.bias")
	})
	if !slices.ContainsFunc(a.file, func(t tensor.Named) bool { return strings.Contains(t.Name, "transformer.") }) {
		a.rename(func(name string) string {
			if strings.HasSuffix(name, "lm_head.weight") {
				return name
			}
			return "transformer." + name
		})
	}
	if i := a.find("attn.c_attn.weight"); i < 0 || !conv1D(a.file[i].Shape) {
		return
	}
	n := 0
	for i, t := range a.file {
		if ofConv1D(t) {
			a.file[i].Tensor = transpose(t.Tensor)
			n++
		}
	}
	a.notes = append(a.notes, fmt.Sprintf("transposed %d weights of Conv1D, which are [in, out]", n))
}

// conv1D recognises c_attn's [width, 3·width].
func conv1D(s tensor.Shape) bool { return len(s) == 2 && s[1] == 3*s[0] }

// ofConv1D reports whether a tensor of GPT-2 is a weight of transformers' Conv1D.
func ofConv1D(t tensor.Named) bool {
	return strings.HasSuffix(t.Name, ".weight") && strings.Contains(t.Name, ".c_") && len(t.Shape) == 2
}

func transpose(t tensor.Tensor) tensor.Tensor {
	rows, cols, size := t.Shape[0], t.Shape[1], t.DType.Size()
	out := tensor.New(t.DType, cols, rows)
	for i := range rows {
		for j := range cols {
			copy(out.Data[(j*rows+i)*size:][:size], t.Data[(i*cols+j)*size:])
		}
	}
	return out
}

// adaptLlama leaves out what older files have of rotary positions.
func adaptLlama(a *adapter) {
	a.drop("buffers of rotary positions", func(name string) bool { return strings.HasSuffix(name, "rotary_emb.inv_freq") })
}

// adaptViT reads torchvision's older names of the MLP.
func adaptViT(a *adapter) {
	a.rename(strings.NewReplacer(".mlp.linear_1.", ".mlp.0.", ".mlp.linear_2.", ".mlp.3.").Replace)
}
