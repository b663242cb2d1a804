package onnx

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/onnx/onnxtest"
	"github.com/trainctl/trainctl/core/tensor"
)

// Every layer has an ONNX form, so that an operation without one is noticed when it is added.
func TestEveryLayerHasAForm(t *testing.T) {
	types := map[graph.Op]graph.Op{op.BatchNorm1D: op.BatchNorm, op.Conv1D: op.Conv2D}
	for _, d := range op.Layers() {
		name := d.Name
		if d.CPUOnly { // functions and plugins have no formula
			continue
		}
		if other, ok := types[name]; ok {
			name = other
		}
		if formOf(name) == nil {
			t.Errorf("%s has no ONNX form", d.Name)
		}
	}
}

// python is one with onnxruntime, from TRAINCTL_PYTHON; the test skips without.
func python(t *testing.T) string {
	t.Helper()
	exe := os.Getenv("TRAINCTL_PYTHON")
	if exe == "" {
		exe = "python3"
	}
	if out, err := exec.Command(exe, "-c", "import onnx, onnxruntime").CombinedOutput(); err != nil {
		t.Skipf("%s has no onnx and onnxruntime (%v %s); TRAINCTL_PYTHON names one that has", exe, err, out)
	}
	return exe
}

// onnxruntime computes what the engine does, for batches of more than one size from one file.
func TestONNXRuntimeComputesTheSame(t *testing.T) {
	exe, dir := python(t), t.TempDir()
	want := map[string][]float32{}
	for _, n := range onnxtest.Networks {
		g, weights := n.Build(t)
		b, err := Marshal(g, weights, n.Name, "test")
		if err != nil {
			t.Fatalf("%s: %v", n.Name, err)
		}
		write(t, filepath.Join(dir, n.Name+".onnx"), b)
		for _, rows := range []int{1, 3} {
			name := fmt.Sprintf("%s.%d", n.Name, rows)
			write(t, filepath.Join(dir, name+".in"), n.Input(rows))
			want[name] = onnxtest.Output(t, g, weights, rows, n.Input(rows))
		}
	}
	out, err := exec.Command(exe, "testdata/run.py", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, w := range want {
		raw, err := os.ReadFile(filepath.Join(dir, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		if err := json.Unmarshal(raw, &got); err != nil || len(got) != len(w) {
			t.Fatalf("%s: %d outputs, want %d (%v)", name, len(got), len(w), err)
		}
		for i, v := range got {
			if d := math.Abs(v - float64(w[i])); !(d <= 1e-5*max(1, math.Abs(v))) {
				t.Errorf("%s: output %d is %v, ours %v", name, i, v, w[i])
				break
			}
		}
	}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRefusedModels(t *testing.T) {
	for _, c := range []struct {
		layers []nn.LayerConfig
		want   string
	}{
		{[]nn.LayerConfig{onnxtest.Layer("adaptive_avgpool2d", "pool", op.Args{"output_size": onnxtest.Pair(5, 5)}), onnxtest.Layer("flatten", "f", nil), onnxtest.Layer("linear", "head", op.Args{"out_features": 10})}, "pool (adaptive_avgpool2d): has windows of different sizes"},
		{[]nn.LayerConfig{onnxtest.Layer("avgpool2d", "avg", op.Args{"kernel_size": onnxtest.Pair(3, 3), "stride": onnxtest.Pair(2, 2), "ceil_mode": true}), onnxtest.Layer("flatten", "f", nil), onnxtest.Layer("linear", "head", op.Args{"out_features": 10})}, "avg (avgpool2d): ceil_mode"},
	} {
		n := onnxtest.Network{Name: "refused", Config: nn.Config{Layers: c.layers}, Sample: tensor.Shape{3, 12, 12}}
		g, weights := n.Build(t)
		if _, err := Marshal(g, weights, "refused", "test"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
