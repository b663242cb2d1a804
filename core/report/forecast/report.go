package forecast

import (
	"encoding/json"
	"io"
)

// Report describes a run that has not started. Sizes are bytes, batches are
// samples. The text omits zero values and empty lists.
type Report struct {
	Schema  int     `json:"schema"` // 1
	Name    string  `json:"name"`
	Config  string  `json:"config"` // path of the configuration
	World   World   `json:"world"`
	Batch   Batch   `json:"batch"`
	Steps   Steps   `json:"steps"`
	Dataset Dataset `json:"dataset"`

	Layers []Layer `json:"layers"`
	Totals Totals  `json:"totals"`

	Buckets []Bucket `json:"buckets"`
	Caps    Caps     `json:"bucket_caps"`
	Traffic Traffic  `json:"traffic"`
	Memory  Memory   `json:"memory_per_rank"`

	Gradients map[string]Gradients `json:"-"` // by layer, for SVG

	Init      []string    `json:"init,omitempty"` // what comes from model.init
	Optimizer string      `json:"optimizer"`      // "sgd lr=0.01 momentum=0.9"
	Schedule  string      `json:"schedule"`       // "cosine over 600 steps, warm-up 50 steps"
	Precision [][2]string `json:"precision"`      // the policy's properties, name and value
	Plugins   []Plugin    `json:"plugins"`
	Warnings  []string    `json:"warnings"`
}

// World describes the ranks and hosts of the run.
type World struct {
	Ranks        int    `json:"ranks"`
	PerNode      int    `json:"per_node"`
	Nodes        int    `json:"nodes"`
	Host         string `json:"host"`                    // where the plan was made: "node7, 2 cores, AVX-512"
	Device       string `json:"device"`                  // "cpu" or "cuda"
	DeviceReason string `json:"device_reason,omitempty"` // why "auto" is the CPU
	Threads      int    `json:"threads_per_rank"`        // 0: unknown
}

// Batch is the number of samples per rank and step.
type Batch struct {
	PerRank    int `json:"per_rank"` // and micro-step, at most
	Accumulate int `json:"accumulate_steps"`
	Global     int `json:"global"` // over all ranks and micro-steps of a step

	Shares []int `json:"shares,omitempty"` // by rank, samples of a step, where launch.shares gives them; omitted where they are equal
}

// Steps counts optimizer steps.
type Steps struct {
	PerEpoch  int `json:"per_epoch"`
	Epochs    int `json:"epochs"`
	Total     int `json:"total"`
	LastBatch int `json:"last_batch"` // samples per rank of an epoch's last step; 0: as every other
}

// Dataset is the data as far as it is known without opening it.
type Dataset struct {
	Plugin       string `json:"plugin"`
	Source       string `json:"source"`
	TrainSamples int    `json:"train_samples"`
	TestSamples  int    `json:"test_samples"`
	Input        string `json:"input"`  // one sample: "f32[1,28,28]"
	Target       string `json:"target"` // "i32[]"
	Notice       string `json:"notice,omitempty"`
}

// Layer is one layer of the model in order.
type Layer struct {
	Name       string   `json:"name"` // path in the state dict
	Type       string   `json:"type"`
	Output     string   `json:"output"` // shape of one sample's output: "[16,14,14]"
	Parameters int      `json:"parameters"`
	FLOPs      int64    `json:"flops"`            // forward, per sample; 0: not counted
	Inputs     []string `json:"inputs,omitempty"` // layers that it reads; omitted where that is the layer before
}

// Gradients are those of a layer's parameters.
type Gradients struct {
	Bytes   int64
	Buckets []int // that hold them, ascending
}

// Totals adds up the model.
type Totals struct {
	Parameters int   `json:"parameters"`
	Buffers    int   `json:"buffers"` // elements that are not parameters, such as running statistics
	FLOPs      int64 `json:"flops"`   // of a step on one rank, forward and backward
}

// Bucket is one group of gradients that is reduced together, in launch order.
type Bucket struct {
	Index      int    `json:"index"`
	Parameters int    `json:"parameters"` // tensors in it
	Bytes      int64  `json:"bytes"`
	First      string `json:"first"` // the gradient that is ready first
	Last       string `json:"last"`  // the one that completes the bucket
}

// Caps are the sizes in MiB at which buckets close. With Auto they are a forecast: a run
// measures before it chooses them.
type Caps struct {
	First float64 `json:"first_mb"`
	Rest  float64 `json:"rest_mb"`
	Auto  bool    `json:"auto"`
}

// Traffic is what the gradients of one step cost each rank: through shared
// memory every byte is read once per rank, in a ring it is sent 2(W-1)/W times
// (Patarasuk and Yuan, 2009).
type Traffic struct {
	GradientBytes int64 `json:"gradient_bytes"`               // before ddp.compress
	WireBytes     int64 `json:"wire_bytes"`                   // as they are sent: less with ddp.compress
	LayerBytes    int64 `json:"layer_plugin_bytes,omitempty"` // copied to layer plugins and back by each rank
	NormBytes     int64 `json:"batchnorm_bytes"`              // exchanged by synchronised batch norms
	RingBytes     int64 `json:"ring_bytes"`
	SharedBytes   int64 `json:"shared_memory_bytes"`

	// With ddp.sync_every the bytes above are averages over steps.
	SyncEvery    int   `json:"sync_every,omitempty"`    // steps between averages of the weights; omitted where gradients are averaged in every step
	AverageBytes int64 `json:"average_bytes,omitempty"` // weights and buffers that are averaged
}

// Memory is what one rank needs, by kind.
type Memory struct {
	Parameters  int64 `json:"parameters"`
	Gradients   int64 `json:"gradients"`
	Optimizer   int64 `json:"optimizer"`
	Buffers     int64 `json:"buffers"`
	Activations int64 `json:"activations"`
	Workspace   int64 `json:"workspace"`
	Batches     int64 `json:"batches"` // read ahead

	Kept       int64 `json:"activations_kept,omitempty"`       // activations kept from forward to backward
	Recomputed int64 `json:"activations_recomputed,omitempty"` // activations that backward recomputes instead of keeping

	// RecomputeOff says why plans for the device recompute no activations unless asked to; empty if they do.
	RecomputeOff string `json:"recompute_off,omitempty"`
}

// total adds up all kinds.
func (m Memory) total() int64 {
	return m.Parameters + m.Gradients + m.Optimizer + m.Buffers + m.Activations + m.Workspace + m.Batches
}

// Plugin is one plugin of the run.
type Plugin struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Version string `json:"version"`
	Path    string `json:"path,omitempty"` // empty for built-in ones
}

// RingBytes is how many bytes each of world ranks sends to all-reduce n bytes in a ring.
func RingBytes(n int64, world int) int64 {
	if world < 2 {
		return 0
	}
	return 2 * n * int64(world-1) / int64(world)
}

// JSON writes the report as one object.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	out := *r
	out.Schema = 1
	out.Layers, out.Buckets = orEmpty(out.Layers), orEmpty(out.Buckets)
	out.Plugins, out.Warnings, out.Precision = orEmpty(out.Plugins), orEmpty(out.Warnings), orEmpty(out.Precision)
	return enc.Encode(struct {
		Report
		MemoryTotal int64 `json:"memory_per_rank_total"`
	}{out, out.Memory.total()})
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
