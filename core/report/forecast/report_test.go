package forecast

import (
	"bytes"
	"flag"
	"testing"

	"github.com/trainctl/trainctl/core/base/golden"
)

var update = flag.Bool("update", false, "rewrite testdata; read the difference")

// convnet is the two-block network of the DDP tutorials on two ranks.
func convnet() *Report {
	return &Report{
		Name: "mnist-ddp", Config: "configs/mnist-ddp.toml",
		World:   World{Ranks: 2, PerNode: 2, Nodes: 1, Host: "node7, 2 cores", Device: "cpu", Threads: 1},
		Batch:   Batch{PerRank: 64, Accumulate: 1, Global: 128},
		Steps:   Steps{PerEpoch: 469, Epochs: 2, Total: 938, LastBatch: 48},
		Dataset: Dataset{Plugin: "mnist", Source: "idx", TrainSamples: 60000, TestSamples: 10000, Input: "f32[1,28,28]", Target: "i32[]"},
		Layers: []Layer{
			{"layer1.0", "conv2d", "[16,28,28]", 416, 640000, nil},
			{"layer1.1", "batchnorm2d", "[16,28,28]", 32, 0, nil},
			{"layer1.2", "relu", "[16,28,28]", 0, 0, nil},
			{"layer1.3", "maxpool2d", "[16,14,14]", 0, 0, nil},
			{"layer2.0", "conv2d", "[32,14,14]", 12832, 5017600, nil},
			{"layer2.1", "batchnorm2d", "[32,14,14]", 64, 0, nil},
			{"layer2.2", "relu", "[32,14,14]", 0, 0, nil},
			{"layer2.3", "maxpool2d", "[32,7,7]", 0, 0, nil},
			{"fc", "linear", "[10]", 15690, 31370, nil},
		},
		Totals:    Totals{Parameters: 29034, Buffers: 98, FLOPs: 1_088_000_000},
		Buckets:   []Bucket{{0, 10, 116136, "fc.bias", "layer1.0.weight"}},
		Caps:      Caps{First: 1, Rest: 25},
		Traffic:   Traffic{GradientBytes: 116136, WireBytes: 116136, RingBytes: RingBytes(116136, 2), SharedBytes: 116136},
		Memory:    Memory{Parameters: 116136, Gradients: 116136, Optimizer: 116136, Buffers: 392, Activations: 9 << 20, Workspace: 1 << 20, Batches: 401408},
		Optimizer: "sgd lr=0.01 momentum=0.9", Schedule: "constant",
		Precision: [][2]string{{"level", "O0"}, {"loss scale", "1"}},
		Plugins:   []Plugin{{"backend", "tcp", "1.0.0", ""}, {"dataset", "mnist", "1.0.0", ""}, {"precision", "./bin/mine", "0.3", "/opt/mine"}},
		Warnings:  []string{"2 ranks of 2 threads share 2 cores"},
	}
}

func TestGolden(t *testing.T) {
	for name, r := range map[string]*Report{
		"convnet": convnet(),
		"empty":   {},
		"nodes": {
			Name: "big", World: World{Ranks: 16, PerNode: 8, Nodes: 2, Device: "cpu"}, Batch: Batch{PerRank: 32, Accumulate: 4, Global: 2048},
			Steps:   Steps{PerEpoch: 1251, Epochs: 90, Total: 5000},
			Memory:  Memory{Parameters: 3 << 40, Activations: 1500, RecomputeOff: "it has not been measured on GPUs"},
			Buckets: []Bucket{{0, 1, 4000, "fc.weight", "fc.weight"}},
			Caps:    Caps{First: 0.5, Rest: 4, Auto: true},
			Traffic: Traffic{GradientBytes: 4000, WireBytes: 2000, NormBytes: 66 * 16, RingBytes: RingBytes(2000, 16), SharedBytes: 32000},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var text, js bytes.Buffer
			if err := r.Text(&text); err != nil {
				t.Fatal(err)
			}
			if err := r.JSON(&js); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "testdata/"+name+".txt", text.Bytes(), *update)
			golden.Compare(t, "testdata/"+name+".json", js.Bytes(), *update)
		})
	}
}

func TestRingBytes(t *testing.T) {
	if RingBytes(100, 1) != 0 || RingBytes(100, 2) != 100 || RingBytes(100, 4) != 150 {
		t.Error("a ring sends 2(W-1)/W of every byte")
	}
}
