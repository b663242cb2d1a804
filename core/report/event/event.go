package event

import "time"

// Schema is the version of the JSON form.
const Schema = 1

// Launcher is the rank of events that come from the launcher itself.
const Launcher = -1

// Event is one of the types of this package, always as a pointer. Sinks keep
// no reference after Emit returns, so that the sender may reuse the struct.
type Event interface {
	// Kind is the value of "event" in JSON.
	Kind() string
	fields(*encoder)
}

// Record is an event with its envelope.
type Record struct {
	Seq   uint64 // counts the events of one sender from 1
	Time  time.Time
	Rank  int // of the sender; Launcher for the launcher
	Event Event
}

// RunStarted is the launcher's first event.
type RunStarted struct {
	Name          string `json:"name"`
	Version       string `json:"version"`
	RunDir        string `json:"run_dir"`
	Continues     string `json:"continues,omitempty"` // directory of the run whose checkpoint it goes on from
	Config        string `json:"config"`              // path of the TOML file
	WorldSize     int    `json:"world_size"`
	Device        string `json:"device"`
	DeviceReason  string `json:"device_reason,omitempty"` // why "auto" is the CPU
	Backend       string `json:"backend"`
	Precision     string `json:"precision"`
	Epochs        int    `json:"epochs"`
	StepsPerEpoch int    `json:"steps_per_epoch"` // 0 while unknown; PlanMade says it
	Steps         int    `json:"steps"`           // of the whole run; 0 while unknown
	Restart       int    `json:"restart"`         // how many times the group was restarted before
}

// RankStarted says that a worker process runs.
type RankStarted struct {
	Host      string `json:"host"`
	PID       int    `json:"pid"`
	LocalRank int    `json:"local_rank"`
	GPU       string `json:"gpu,omitempty"` // that it computes on: name and UUID
}

// PhaseChanged names what a rank does next: "rendezvous", "data", "plan",
// "train", "eval", "checkpoint", "done".
type PhaseChanged struct {
	Phase  string `json:"phase"`
	Detail string `json:"detail,omitempty"`
}

// DatasetOpened says where the data came from.
type DatasetOpened struct {
	Plugin       string `json:"plugin"`
	Source       string `json:"source"`
	Notice       string `json:"notice,omitempty"` // shown loudly
	TrainSamples int    `json:"train_samples"`
	TestSamples  int    `json:"test_samples"`
	Fingerprint  string `json:"fingerprint,omitempty"`

	// Classes are their names by index, where the data set knows them; left out
	// above [MaxClassBytes].
	Classes []string `json:"classes,omitempty"`
}

// MaxClassBytes is how much of an event the names of classes may take.
const MaxClassBytes = 64 << 10

// PluginStarted says which plugin rank 0 trains with. It follows the start of
// training: sums take a moment.
type PluginStarted struct {
	Type    string `json:"type"`              // "backend", "precision", "dataset"
	Name    string `json:"name"`              // that it gives itself
	Version string `json:"version,omitempty"` // of the plugin
	Path    string `json:"path"`              // of its executable, absolute; a built-in plugin's is trainctl's own
	SHA256  string `json:"sha256,omitempty"`  // of the executable, hexadecimal
}

// PlanMade sums up the static plan.
type PlanMade struct {
	Parameters    int64   `json:"parameters"` // elements
	Buckets       int     `json:"buckets"`
	BytesPerStep  int64   `json:"bytes_per_step"` // reduced per rank and step
	MemoryBytes   int64   `json:"memory_bytes"`   // planned, per rank
	PlanSteps     int     `json:"plan_steps"`     // kernels in one training step
	Epochs        int     `json:"epochs"`
	StepsPerEpoch int     `json:"steps_per_epoch"`
	Steps         int     `json:"steps"`
	LogFreq       int     `json:"log_freq"` // steps between plain progress lines
	TookMS        float64 `json:"took_ms"`
}

// BucketsChosen says what ddp.bucket_cap_mb = "auto" came to, and why.
type BucketsChosen struct {
	FirstMB   float64 `json:"first_mb"`
	CapMB     float64 `json:"cap_mb"`
	Buckets   int     `json:"buckets"`
	ExposedMS float64 `json:"exposed_ms"` // expected of a step
	PassMS    float64 `json:"pass_ms"`    // measured: forward and backward
	AlphaUS   float64 `json:"alpha_us"`   // measured: a small all-reduce
	GBPerSec  float64 `json:"gb_per_sec"` // measured: a large one, decimal gigabytes
}

// StepDone follows every optimizer step, applied or skipped. Floats that are
// not finite are null in JSON and NaN again when decoded.
type StepDone struct {
	Step          int     `json:"step"`      // from 1
	Epoch         int     `json:"epoch"`     // from 0
	Loss          float64 `json:"loss"`      // this rank's
	LossMean      float64 `json:"loss_mean"` // over ranks
	Accuracy      float64 `json:"accuracy"`  // fraction right in this step's batches, over ranks; negative: none, left out
	LR            float64 `json:"lr"`
	StepMS        float64 `json:"step_ms"`
	DataMS        float64 `json:"data_ms"` // waited for the batch
	CommMS        float64 `json:"comm_ms"` // this rank stood still for communication, and for ranks that came later
	Samples       int     `json:"samples"` // over all ranks
	SamplesPerSec float64 `json:"samples_per_sec"`
	GradNorm      float64 `json:"grad_norm"` // before clipping; 0: not measured, left out
	Scale         float64 `json:"scale"`     // loss scale; 0: none, left out
	Skipped       bool    `json:"skipped"`   // left out when false
}

// EvalDone follows an evaluation over the whole test split.
type EvalDone struct {
	Step     int     `json:"step"`
	Epoch    int     `json:"epoch"`
	Loss     float64 `json:"loss"`
	Accuracy float64 `json:"accuracy"` // negative: none, left out
	Samples  int     `json:"samples"`
	TookMS   float64 `json:"took_ms"`
}

// CheckpointSaved says that a checkpoint is durable.
type CheckpointSaved struct {
	Step    int     `json:"step"`
	Path    string  `json:"path"`
	Bytes   int64   `json:"bytes"`
	PauseMS float64 `json:"pause_ms"` // training stood still
	TookMS  float64 `json:"took_ms"`  // until durable
	Best    bool    `json:"best,omitempty"`
}

// CheckpointLoaded says what a run continues from, and what was passed over or
// adapted on the way.
type CheckpointLoaded struct {
	Step  int      `json:"step"`
	Path  string   `json:"path"`
	Notes []string `json:"notes,omitempty"`
}

// PluginLog is a line of a plugin's log. With Total set it is a progress line.
type PluginLog struct {
	Plugin  string `json:"plugin"`
	Level   string `json:"level"` // "debug", "info", "warn", "error"
	Message string `json:"message"`
	Done    int64  `json:"done,omitempty"`  // bytes
	Total   int64  `json:"total,omitempty"` // bytes
}

// Warning is something a user should read and the run survives.
type Warning struct {
	Source  string `json:"source"` // plugin or package
	Message string `json:"message"`
}

// BackendRestarted says that the ranks put new backend plugins in the place of
// a group that broke, and go on.
type BackendRestarted struct {
	Generation int     `json:"generation"` // of the backend within this start of the ranks; the first is 1
	Step       int     `json:"step"`       // that is under way
	Cause      string  `json:"cause"`      // whose plugin died, and how
	TookMS     float64 `json:"took_ms"`    // from when this rank noticed
}

// BackendPlaced says where a backend runs that could run elsewhere too.
type BackendPlaced struct {
	Backend   string `json:"backend"`
	InProcess bool   `json:"in_process"` // in the rank's own
	PID       int    `json:"pid"`        // of its process, else 0
	Reason    string `json:"reason"`
}

// PluginFailed says that a rank ends because the process of one of its plugins
// hangs or has died.
type PluginFailed struct {
	Type      string `json:"type"` // "backend", "dataset" or "precision"
	Name      string `json:"name"` // as in the configuration
	PID       int    `json:"pid"`
	Operation string `json:"operation"` // that it was asked for: "all_reduce #12", "fill", "open"
	Hung      bool   `json:"hung"`      // it gave no sign of life, or did not end the operation in time; else it died
	Cause     string `json:"cause"`
}

// Refused says that a rank ends before its first step because of a mistake in the
// configuration, or in the data that it names. Problems with a key of the
// configuration are in lists of equal length.
type Refused struct {
	Message string   `json:"message"` // all of it, for where there are no keys
	Keys    []string `json:"keys,omitempty"`
	Details []string `json:"details,omitempty"`
	Help    []string `json:"help,omitempty"`
}

// RankFailed is the launcher's account of a dead rank.
type RankFailed struct {
	FailedRank int      `json:"failed_rank"`
	Host       string   `json:"host"`
	PID        int      `json:"pid"`
	ExitCode   int      `json:"exit_code"`
	Signal     string   `json:"signal,omitempty"`
	Message    string   `json:"message,omitempty"`
	LastLines  []string `json:"last_lines,omitempty"`
	Advice     string   `json:"advice,omitempty"`
}

// RankDone is a rank's word that all of its work is done: nothing but its end
// is to come. A launcher takes an exit code of 0 for good only after it.
type RankDone struct {
	Step int `json:"step"` // the last one
}

// RunDone is the last event.
type RunDone struct {
	Status   string  `json:"status"` // "ok", "failed", "diverged", "preempted", "interrupted"
	Step     int     `json:"step"`
	Loss     float64 `json:"loss"`     // mean over ranks of the last steps
	Accuracy float64 `json:"accuracy"` // of the last evaluation; negative: none, left out
	TotalS   float64 `json:"total_s"`
	ExitCode int     `json:"exit_code"`
	Message  string  `json:"message,omitempty"`
}

// The names of the events in JSON.
func (*RunStarted) Kind() string       { return "run_started" }
func (*PluginStarted) Kind() string    { return "plugin_started" }
func (*RankStarted) Kind() string      { return "rank_started" }
func (*PhaseChanged) Kind() string     { return "phase" }
func (*DatasetOpened) Kind() string    { return "dataset" }
func (*PlanMade) Kind() string         { return "plan" }
func (*StepDone) Kind() string         { return "step" }
func (*BucketsChosen) Kind() string    { return "buckets" }
func (*EvalDone) Kind() string         { return "eval" }
func (*CheckpointSaved) Kind() string  { return "checkpoint_saved" }
func (*CheckpointLoaded) Kind() string { return "checkpoint_loaded" }
func (*PluginLog) Kind() string        { return "plugin_log" }
func (*Warning) Kind() string          { return "warning" }
func (*BackendRestarted) Kind() string { return "backend_restarted" }
func (*BackendPlaced) Kind() string    { return "backend_placed" }
func (*PluginFailed) Kind() string     { return "plugin_failed" }
func (*Refused) Kind() string          { return "refused" }
func (*RankFailed) Kind() string       { return "rank_failed" }
func (*RankDone) Kind() string         { return "rank_done" }
func (*RunDone) Kind() string          { return "run_done" }

// New gives an empty event of a kind, nil for a kind this version does not know.
func New(kind string) Event {
	if f, ok := kinds[kind]; ok {
		return f()
	}
	return nil
}

var kinds = map[string]func() Event{
	"run_started":       func() Event { return new(RunStarted) },
	"rank_started":      func() Event { return new(RankStarted) },
	"plugin_started":    func() Event { return new(PluginStarted) },
	"buckets":           func() Event { return new(BucketsChosen) },
	"phase":             func() Event { return new(PhaseChanged) },
	"dataset":           func() Event { return new(DatasetOpened) },
	"plan":              func() Event { return new(PlanMade) },
	"step":              func() Event { return new(StepDone) },
	"eval":              func() Event { return new(EvalDone) },
	"checkpoint_saved":  func() Event { return new(CheckpointSaved) },
	"checkpoint_loaded": func() Event { return new(CheckpointLoaded) },
	"plugin_log":        func() Event { return new(PluginLog) },
	"warning":           func() Event { return new(Warning) },
	"backend_restarted": func() Event { return new(BackendRestarted) },
	"backend_placed":    func() Event { return new(BackendPlaced) },
	"plugin_failed":     func() Event { return new(PluginFailed) },
	"refused":           func() Event { return new(Refused) },
	"rank_failed":       func() Event { return new(RankFailed) },
	"rank_done":         func() Event { return new(RankDone) },
	"run_done":          func() Event { return new(RunDone) },
}
