package infer

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/checkpoint/safetensors"
)

// A model that is trained on mixed samples predicts classes, as one that is trained on classes does; one
// with independent probabilities or numbers as targets predicts values.
func TestPredictionsByTarget(t *testing.T) {
	layers := []nn.LayerConfig{{Type: "linear", Args: op.Args{"out_features": 3}}}
	in, x := tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{4}}, []float32{1, -2, 3, -4}
	for name, c := range map[string]struct {
		target  tensor.Spec
		loss    string
		classes bool
	}{
		"classes": {tensor.Spec{DType: tensor.I32}, "", true},
		"mixed":   {tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{3}}, "", true},
		"several": {tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{3}}, "bce_with_logits", false},
	} {
		spec := &sdk.DatasetSpec{Input: in, Target: c.target, Classes: 3}
		p := NewPredictor(loaded(t, nn.Config{Layers: layers, Loss: c.loss}, spec), cpu.New(), spec)
		got, err := p.Run(tensor.Bytes(x), nil, 2)
		if err != nil || len(got) != 1 || (len(got[0].Top) == 2) != c.classes || (len(got[0].Values) == 3) == c.classes {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A network that gives each position a class predicts the class of each, unless the classes are the
// vocabulary of its inputs: then it is a language model, and the next token is predicted.
func TestPredictionsOfPositions(t *testing.T) {
	tokens := tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{5}}
	for _, c := range []struct{ vocabulary, classes int }{{7, 3}, {7, 7}} {
		spec := &sdk.DatasetSpec{Input: tokens, Target: tokens, Vocabulary: c.vocabulary, Classes: c.classes}
		m := loaded(t, nn.Config{Layers: []nn.LayerConfig{{Type: "embedding", Args: op.Args{"num_embeddings": 7, "embedding_dim": c.classes}}}}, spec)
		x, names := []int32{6, 2, 2, 0, 2}, []string{"a", "b"}
		got, err := NewPredictor(m, cpu.New(), spec).Run(tensor.Bytes(x), names, 2)
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		if c.vocabulary == c.classes {
			if len(got[0].Top) != 2 || got[0].Positions != nil {
				t.Errorf("a language model predicts %+v", got[0])
			}
			continue
		}
		rows, counts := tensor.View[float32](m.Weights[0].Data), map[int]int{}
		for i, token := range x {
			row := rows[int(token)*3:][:3]
			want := slices.Index(row, slices.Max(row))
			if counts[want]++; got[0].Positions[i] != want {
				t.Errorf("position %d has class %d, want %d", i, got[0].Positions[i], want)
			}
		}
		top := got[0].Top
		for i, s := range top {
			if s.Probability != float64(counts[s.Index])/5 || s.Name != append(names, "")[s.Index] || i > 0 && s.Probability > top[i-1].Probability {
				t.Errorf("shares %+v of %v", top, counts)
			}
		}
		if len(got[0].Positions) != 5 || len(top) != min(2, len(counts)) {
			t.Errorf("%+v", got[0])
		}
	}
}

// Weights that a file has in half precision are computed with as the numbers that they are.
func TestHalfWeights(t *testing.T) {
	cfg, spec := nn.Config{Layers: []nn.LayerConfig{{Type: "linear", Args: op.Args{"out_features": 3}}}}, &sdk.DatasetSpec{
		Input: tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{4}}, Target: tensor.Spec{DType: tensor.I32}, Classes: 3,
	}
	m := loaded(t, cfg, spec)
	for _, d := range []tensor.DType{tensor.BF16, tensor.F16} {
		var half []tensor.Named
		for i, e := range m.Graph.StateDict() {
			h := tensor.New(d, e.Spec.Shape...)
			convert.Convert(d, h.Data, tensor.F32, m.Weights[i].Data)
			half = append(half, tensor.Named{Name: e.Name, Tensor: h})
		}
		path := filepath.Join(t.TempDir(), "half.safetensors")
		f, err := os.Create(path)
		if err == nil {
			err = safetensors.Write(f, half, nil)
		}
		if err != nil || f.Close() != nil {
			t.Fatal(err)
		}
		got, err := Load(context.Background(), checkpoint.OsFS(), cfg, spec, path)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range got.Weights {
			for j := range w.Shape.Elems() {
				if w.DType != tensor.F32 || w.At(j) != half[i].At(j) {
					t.Fatal(fmt.Sprint(d, ": ", half[i].Name, "[", j, "] is ", w.At(j), ", the file has ", half[i].At(j)))
				}
			}
		}
	}
}

// An output that is not a number gives no class, of a sample or of a position.
func TestOutputsThatAreNotFinite(t *testing.T) {
	nan := float32(math.NaN())
	for _, shape := range []tensor.Shape{{4}, {2, 4}} {
		target := tensor.Spec{DType: tensor.I32, Shape: shape[:len(shape)-1]}
		spec := &sdk.DatasetSpec{Input: tensor.Spec{DType: tensor.F32, Shape: shape}, Target: target, Classes: 3}
		m := loaded(t, nn.Config{Layers: []nn.LayerConfig{{Type: "linear", Args: op.Args{"out_features": 3}}}}, spec)
		x := make([]float32, 2*shape.Elems())
		x[0] = nan
		got, err := NewPredictor(m, cpu.New(), spec).Run(tensor.Bytes(x), nil, 1)
		if err != nil || len(got) != 2 || !got[0].NotFinite || got[0].Top != nil || got[1].NotFinite || len(got[1].Top) != 1 {
			t.Errorf("%v: %+v, %v", shape, got, err)
		}
	}
}

// A network whose positions attend to later ones predicts each position, even if its classes are its vocabulary.
func TestPredictionsOfAnEncoder(t *testing.T) {
	tokens := tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{5}}
	spec := &sdk.DatasetSpec{Input: tokens, Target: tokens, Vocabulary: 7, Classes: 7}
	for causal, positions := range map[bool]int{true: 0, false: 5} {
		m := loaded(t, nn.Config{Layers: []nn.LayerConfig{
			{Type: "embedding", Args: op.Args{"num_embeddings": 7, "embedding_dim": 6}},
			{Type: "attention", Args: op.Args{"heads": 1, "causal": causal}},
			{Type: "linear", Args: op.Args{"out_features": 7}},
		}}, spec)
		got, err := NewPredictor(m, cpu.New(), spec).Run(tensor.Bytes([]int32{6, 2, 2, 0, 2}), nil, 2)
		if err != nil || len(got) != 1 || len(got[0].Positions) != positions || len(got[0].Top) == 0 {
			t.Errorf("causal %v: %+v, %v", causal, got, err)
		}
	}
}
