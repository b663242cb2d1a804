package importer

import (
	"math"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/onnx"
	"github.com/trainctl/trainctl/core/onnx/onnxtest"
	"github.com/trainctl/trainctl/core/onnx/source"
	"github.com/trainctl/trainctl/core/tensor"
)

// imported reads a file's content.
func imported(t *testing.T, b []byte, folder string) *Network {
	t.Helper()
	m, err := source.Parse(b, folder)
	if err != nil {
		t.Fatal(err)
	}
	n, err := Import(m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// output is what the engine computes for a batch.
func (n *Network) output(t *testing.T, rows int, input []byte) []float32 {
	t.Helper()
	target, classes := n.Target()
	g, err := nn.Build(n.Model, n.Sample, target, classes)
	if err != nil {
		t.Fatal(err)
	}
	var weights []tensor.Tensor
	for _, w := range n.Weights {
		weights = append(weights, w.Tensor)
	}
	return onnxtest.Output(t, g, weights, rows, input)
}

// tolerance is for layers that come back as others, such as rotary positions as their tables, and so round
// differently: by how much depends on the instructions.
const tolerance = 4e-6

// What Marshal writes of each network comes back as a network that computes the same, with the names of its weights.
func TestImportUndoesExport(t *testing.T) {
	for _, n := range onnxtest.Networks {
		t.Run(n.Name, func(t *testing.T) {
			t.Parallel()
			g, weights := n.Build(t)
			b, err := onnx.Marshal(g, weights, n.Name, "test")
			if err != nil {
				t.Fatal(err)
			}
			back := imported(t, b, "")
			input := n.Input(3)
			want := onnxtest.Output(t, g, weights, 3, input)
			got := back.output(t, 3, input)
			if len(got) != len(want) {
				t.Fatalf("%d outputs, want %d", len(got), len(want))
			}
			for i := range want {
				if d := math.Abs(float64(got[i] - want[i])); !(d <= tolerance*max(1, math.Abs(float64(want[i])))) {
					t.Fatalf("output %d is %v, want %v", i, got[i], want[i])
				}
			}
			have := map[string]bool{}
			for _, w := range back.Weights {
				have[w.Name] = true
			}
			for _, e := range g.StateDict() {
				if !have[e.Name] && strings.Contains(e.Name, ".") && usable(pathOf(e.Name)) && !strings.Contains(e.Name, "in_proj_") {
					t.Errorf("%s is gone", e.Name)
				}
			}
		})
	}
}
