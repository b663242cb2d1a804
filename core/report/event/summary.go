package event

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/durable"
)

// Summary is summary.json: the results of a run. Its keys are a public interface.
type Summary struct {
	Schema    int            `json:"schema"`
	Name      string         `json:"name"`
	Status    string         `json:"status"`              // as in RunDone
	Continues string         `json:"continues,omitempty"` // as in RunStarted
	WorldSize int            `json:"world_size"`
	Device    string         `json:"device"`
	Backend   string         `json:"backend"`
	Precision string         `json:"precision"`
	Dataset   DatasetSummary `json:"dataset"`

	Init *ModelInit `json:"init,omitempty"` // as in the event; nil without one

	EarlyStop *EarlyStop `json:"early_stop,omitempty"` // nil without early stopping

	// Plugins are those that rank 0 started; nil if it failed before.
	Plugins []PluginStarted `json:"plugins,omitempty"`

	Epochs int          `json:"epochs"`
	Steps  int          `json:"steps"`
	Train  TrainSummary `json:"train"`
	Eval   *EvalSummary `json:"eval,omitempty"` // nil when nothing was evaluated
	Time   TimeSummary  `json:"time"`
	Comm   CommSummary  `json:"comm"`
	// Layers is where rank 0's computing time goes, in the order of the model; nil without
	// metrics.timeline, and on GPUs.
	Layers []LayerTime   `json:"layers,omitempty"`
	Memory MemorySummary `json:"memory"`
	// ParamsSHA256 has one hex digest per rank, over parameters and buffers in
	// state-dict order, after the last broadcast of the buffers.
	ParamsSHA256 []string `json:"params_sha256"`
	Restarts     int      `json:"restarts"`

	// PluginRestarts is how often data set and precision plugins were replaced since the
	// last start of the ranks, by kind, on all ranks together. Kinds without any are left out.
	PluginRestarts map[string]int `json:"plugin_restarts,omitempty"`
}

// DatasetSummary describes the training data.
type DatasetSummary struct {
	Plugin       string `json:"plugin"`
	Source       string `json:"source"` // "idx", "download", "generated", …
	TrainSamples int    `json:"train_samples"`
	TestSamples  int    `json:"test_samples"`
	Validation   string `json:"validation,omitempty"` // as in DatasetOpened

	Classes []string `json:"classes,omitempty"` // names by index, if the data set has them
}

// TrainSummary sums up the steps.
type TrainSummary struct {
	Loss          Number `json:"loss"`
	SamplesPerSec Number `json:"samples_per_sec"`          // of all ranks, without the first ten steps
	TokensPerSec  Number `json:"tokens_per_sec,omitempty"` // 0: samples are not sequences
	StepMSP50     Number `json:"step_ms_p50"`
	StepMSP99     Number `json:"step_ms_p99"`

	// Shares are each rank's samples of the last steps, if launch.shares made them unequal.
	Shares []int `json:"shares,omitempty"`
}

// EvalSummary is the last evaluation.
type EvalSummary struct {
	Loss     Number  `json:"loss"`
	Accuracy *Number `json:"accuracy,omitempty"` // nil for a regression

	// As in EvalDone.
	Perplexity  Number `json:"perplexity,omitempty"`
	BitsPerByte Number `json:"bits_per_byte,omitempty"`

	Metrics *EvalMetrics `json:"metrics,omitempty"`
}

// TimeSummary is in seconds.
type TimeSummary struct {
	ToFirstStepS Number `json:"to_first_step_s"` // from the launcher's start to the end of the first optimizer step
	TrainS       Number `json:"train_s"`
	TotalS       Number `json:"total_s"`
}

// CommSummary sums up the gradient reduction.
type CommSummary struct {
	Buckets      int        `json:"buckets"`
	BucketCapsMB [2]float64 `json:"bucket_caps_mb"` // of the first and of the others
	BytesPerStep int64      `json:"bytes_per_step"`
	ExposedMSP50 Number     `json:"exposed_ms_p50"` // per step, the wait of the rank that waited least: communication not overlapped with backward

	// ImbalanceMSP50 is how much longer the first rank to arrive waited than the last.
	ImbalanceMSP50 Number `json:"imbalance_ms_p50"`

	// SlowestRank is the rank that almost always arrived last, if the others waited
	// more than a fifth of a step for it; nil if there is none.
	SlowestRank *int `json:"slowest_rank,omitempty"`

	// StoreMessages is how many messages rank 0 and the job's store exchanged.
	StoreMessages int `json:"store_messages,omitempty"`

	// BackendRestarts is how often the backend plugins were replaced since the last
	// start of the ranks.
	BackendRestarts int `json:"backend_restarts"`

	// Elastic are the changes of the ranks since their last start.
	Elastic []Elastic `json:"elastic,omitempty"`
}

// LayerTime is what a layer takes in the mean step: its operations, without the optimizer.
type LayerTime struct {
	Layer      string `json:"layer"` // state-dict path, or "loss"
	ForwardMS  Number `json:"forward_ms"`
	BackwardMS Number `json:"backward_ms"` // with what it recomputes
}

// MemorySummary is per rank, plugins included and shared pages counted once.
type MemorySummary struct {
	PeakRSSBytes []int64 `json:"peak_rss_bytes"`
}

// Number is a float64 that may be infinite or NaN: those are null in JSON.
type Number float64

// Finite reports whether n is neither infinite nor NaN.
func (n Number) Finite() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// MarshalJSON writes null for values that JSON numbers cannot represent.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.Finite() {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', -1, 64), nil
}

// UnmarshalJSON reads null as NaN.
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	f, err := strconv.ParseFloat(string(b), 64)
	*n = Number(f)
	return err
}

// WriteSummary replaces the file at path atomically: a reader sees the old summary or
// the new one. It sets Schema.
func WriteSummary(fsys afero.Fs, path string, s Summary) error {
	s.Schema = Schema
	if s.ParamsSHA256 == nil {
		s.ParamsSHA256 = []string{}
	}
	if s.Memory.PeakRSSBytes == nil {
		s.Memory.PeakRSSBytes = []int64{}
	}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("summary: %w", err)
	}
	if err := durable.Replace(fsys, path, append(b, '\n')); err != nil {
		return fmt.Errorf("summary: %w", err)
	}
	return nil
}

// ReadSummary reads what WriteSummary wrote.
func ReadSummary(fsys afero.Fs, path string) (Summary, error) {
	var s Summary
	b, err := afero.ReadFile(fsys, path)
	if err != nil {
		return s, fmt.Errorf("summary: %w", err)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("summary %s: %w", path, err)
	}
	return s, nil
}
