package event

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Schema is the version of the JSON form.
const Schema = 1

// Launcher is the rank of events that come from the launcher itself.
const Launcher = -1

// Event is one of the types of this package, always as a pointer. Sinks keep
// no reference after Emit returns, so that the sender may reuse the struct.
type Event interface {
	// Kind is the value of "event" in JSON.
	Kind() string
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
	Continues     string `json:"continues,omitempty"` // directory of the run whose checkpoint it continues from
	Config        string `json:"config"`              // path of the TOML file
	WorldSize     int    `json:"world_size"`
	Device        string `json:"device"`
	DeviceReason  string `json:"device_reason,omitempty"` // why "auto" is the CPU
	Backend       string `json:"backend"`
	Precision     string `json:"precision"`
	Epochs        int    `json:"epochs"`
	StepsPerEpoch int    `json:"steps_per_epoch"` // 0 while unknown; PlanMade has it
	Steps         int    `json:"steps"`           // of the whole run; 0 while unknown
	Restart       int    `json:"restart"`         // how many times the group was restarted before
}

// RankStarted says that a worker process runs.
type RankStarted struct {
	Host      string `json:"host"`
	PID       int    `json:"pid"`
	LocalRank int    `json:"local_rank"`
	GPU       string `json:"gpu,omitempty"` // the one that it computes on: name and UUID

	// LauncherPID is the process of trainctl run that started it; omitted if another launcher did.
	LauncherPID int `json:"launcher_pid,omitempty"`
}

// PhaseChanged reports what a rank does next: "rendezvous", "data", "plan",
// "train", "eval", "checkpoint", "done".
type PhaseChanged struct {
	Phase  string `json:"phase"`
	Detail string `json:"detail,omitempty"`
}

// DatasetOpened reports the data set and where its data came from.
type DatasetOpened struct {
	Plugin       string `json:"plugin"`
	Source       string `json:"source"`
	Notice       string `json:"notice,omitempty"` // shown prominently
	TrainSamples int    `json:"train_samples"`
	TestSamples  int    `json:"test_samples"`
	Fingerprint  string `json:"fingerprint,omitempty"`
	Validation   string `json:"validation,omitempty"` // how dataset.validation held out the test samples

	// Classes are the class names by index, if the data set has them; omitted above
	// [MaxClassBytes].
	Classes []string `json:"classes,omitempty"`
}

// MaxClassBytes is the maximum size of the class names in an event, in bytes.
const MaxClassBytes = 64 << 10

// PluginStarted reports a plugin that rank 0 trains with. It is sent after training
// has started, since checksums take a moment.
type PluginStarted struct {
	Type    string `json:"type"`              // "backend", "precision", "dataset"
	Name    string `json:"name"`              // reported by the plugin
	Version string `json:"version,omitempty"` // of the plugin
	Path    string `json:"path"`              // absolute path of its executable; for a built-in plugin that of trainctl
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

// BucketsChosen reports what ddp.bucket_cap_mb = "auto" selected, and why.
type BucketsChosen struct {
	FirstMB   float64 `json:"first_mb"`
	CapMB     float64 `json:"cap_mb"`
	Buckets   int     `json:"buckets"`
	ExposedMS float64 `json:"exposed_ms"` // expected per step
	PassMS    float64 `json:"pass_ms"`    // measured: forward and backward
	AlphaUS   float64 `json:"alpha_us"`   // measured: a small all-reduce
	GBPerSec  float64 `json:"gb_per_sec"` // measured: a large one, decimal gigabytes
}

// Shares reports that launch.shares = "auto" has changed how many samples of a step each rank has.
type Shares struct {
	Step        int       `json:"step"`          // the first with these shares
	Samples     []int     `json:"samples"`       // by rank, in a whole step
	Before      []int     `json:"before"`        // by rank
	MSPerSample []float64 `json:"ms_per_sample"` // by rank, measured: computing without waits
	Gain        float64   `json:"gain"`          // expected: the part of a step's time that this saves
}

// Slowest is the rank that took the longest for a sample.
func (e *Shares) Slowest() int {
	slowest := 0
	for r, ms := range e.MSPerSample {
		if ms > e.MSPerSample[slowest] {
			slowest = r
		}
	}
	return slowest
}

func (e *Shares) String() string {
	n := e.Slowest()
	return fmt.Sprintf("the %d samples of a step are divided as %s from step %d on, which should save %.0f %% of its time; rank %d is the slowest: it takes %.3g ms for a sample, and the fastest %.3g ms",
		sum(e.Samples), few(numbers(e.Samples)), e.Step, 100*e.Gain, n, e.MSPerSample[n], slices.Min(e.MSPerSample))
}

func sum(list []int) (n int) {
	for _, k := range list {
		n += k
	}
	return n
}

func numbers(list []int) []string {
	text := make([]string, len(list))
	for i, n := range list {
		text[i] = strconv.Itoa(n)
	}
	return text
}

// StepDone follows every optimizer step, applied or skipped. Floats that are
// not finite are null in JSON and NaN again when decoded.
type StepDone struct {
	Step          int     `json:"step"`      // from 1
	Epoch         int     `json:"epoch"`     // from 0
	Loss          float64 `json:"loss"`      // this rank's
	LossMean      float64 `json:"loss_mean"` // over ranks
	Accuracy      float64 `json:"accuracy"`  // fraction correct in this step's batches, over all ranks; negative: none, left out
	LR            float64 `json:"lr"`
	StepMS        float64 `json:"step_ms"`
	DataMS        float64 `json:"data_ms"` // waiting for the batch
	CommMS        float64 `json:"comm_ms"` // this rank waited for communication and for slower ranks
	Samples       int     `json:"samples"` // over all ranks
	SamplesPerSec float64 `json:"samples_per_sec"`
	Tokens        int     `json:"tokens"`         // targets of the samples; 0: one per sample; left out, as is the next field
	TokensPerSec  float64 `json:"tokens_per_sec"` // over all ranks
	GradNorm      float64 `json:"grad_norm"`      // before clipping; 0: not measured, left out
	Scale         float64 `json:"scale"`          // loss scale; 0: none, left out
	Skipped       bool    `json:"skipped"`        // left out when false
}

// EvalDone follows an evaluation over the whole test split.
type EvalDone struct {
	Step     int     `json:"step"`
	Epoch    int     `json:"epoch"`
	Loss     float64 `json:"loss"`                     // of a sample, or of a token
	Accuracy float64 `json:"accuracy" omit:"negative"` // negative: none, left out
	Samples  int     `json:"samples"`
	TookMS   float64 `json:"took_ms"`

	// Of samples with a target per position.
	Tokens      int     `json:"tokens,omitempty"`        // that count
	Perplexity  float64 `json:"perplexity,omitempty"`    // exp(loss)
	BitsPerByte float64 `json:"bits_per_byte,omitempty"` // 0: the data set does not know the bytes of its text

	Metrics *EvalMetrics `json:"metrics,omitempty"` // nil: none were chosen
}

// MaxClasses is how many classes an event and a summary describe one by one; evaluation.json has all.
const MaxClasses = 100

// Summary is the evaluation as summary.json has it.
func (e *EvalDone) Summary() *EvalSummary {
	s := &EvalSummary{Loss: Number(e.Loss), Perplexity: Number(e.Perplexity), BitsPerByte: Number(e.BitsPerByte), Metrics: e.Metrics}
	if !(e.Accuracy < 0) {
		n := Number(e.Accuracy)
		s.Accuracy = &n
	}
	return s
}

// CheckpointSaved reports that a checkpoint is durable.
type CheckpointSaved struct {
	Step    int     `json:"step"`
	Path    string  `json:"path"`
	Bytes   int64   `json:"bytes"`
	PauseMS float64 `json:"pause_ms"` // training was paused
	TookMS  float64 `json:"took_ms"`  // until durable
	Best    bool    `json:"best,omitempty"`
}

// CheckpointLoaded reports what a run continues from, and what was skipped or adapted
// when loading it.
type CheckpointLoaded struct {
	Step  int      `json:"step"`
	Path  string   `json:"path"`
	Notes []string `json:"notes,omitempty"`
}

// ModelInit reports where the weights of a new run come from. It is sent if model.init does not
// provide all of them, if part of the file is left out, and if the file is missing.
type ModelInit struct {
	Path    string   `json:"path"`              // model.init
	Loaded  int      `json:"loaded"`            // tensors of the model that come from the file
	Skipped []string `json:"skipped,omitempty"` // tensors of the file that were left out
	New     []string `json:"new,omitempty"`     // tensors of the model that are initialised as without a file
	Notice  string   `json:"notice,omitempty"`  // what happens instead, without the file
}

// Lines describe it for people.
func (e *ModelInit) Lines() []string {
	if e.Notice != "" {
		return []string{"NOTICE " + e.Notice}
	}
	lines := []string{fmt.Sprintf("%d tensors loaded from %s", e.Loaded, e.Path)}
	for _, part := range []struct {
		what  string
		names []string
	}{{"skipped", e.Skipped}, {"new", e.New}} {
		if len(part.names) > 0 {
			lines = append(lines, fmt.Sprintf("%d %s: %s", len(part.names), part.what, few(part.names)))
		}
	}
	return lines
}

// few lists names; of many, only the first.
func few(names []string) string {
	const enough = 8
	if rest := len(names) - enough; rest > 1 {
		return strings.Join(names[:enough], ", ") + fmt.Sprintf(" and %d more", rest)
	}
	return strings.Join(names, ", ")
}

// EarlyStop reports the state of early stopping: as an event when it ends the run, and in the summary.
type EarlyStop struct {
	Metric   string `json:"metric"`
	Best     Number `json:"best"`
	BestStep int    `json:"best_step"`
	Without  int    `json:"evaluations_without_improvement"`
	Stopped  bool   `json:"stopped"` // early stopping ended the run
}

// PluginLog is a line of a plugin's log. With Total set it is a progress line.
type PluginLog struct {
	Plugin  string `json:"plugin"`
	Level   string `json:"level"` // "debug", "info", "warn", "error"
	Message string `json:"message"`
	Done    int64  `json:"done,omitempty"`  // bytes
	Total   int64  `json:"total,omitempty"` // bytes
}

// Warning is a problem that a user should know about and that does not end the run.
type Warning struct {
	Source  string `json:"source"` // plugin or package
	Message string `json:"message"`
}

// Elastic reports that the ranks of a job changed, and that it continues without a restart.
type Elastic struct {
	Ranks  int     `json:"ranks"`            // number of ranks now
	Before int     `json:"before"`           // number of ranks before the change
	Step   int     `json:"step"`             // the current one
	Cause  string  `json:"cause"`            // who left and how it was noticed, or who joined
	TookMS float64 `json:"took_ms"`          // downtime, from the beginning of the interrupted step until the new group was formed
	Places []int   `json:"places"`           // by rank: the number it had when it was started, which is also its log's
	Left   []int   `json:"left,omitempty"`   // ranks that left, by the same numbers
	Joined []int   `json:"joined,omitempty"` // ranks that joined, by the same numbers
}

// BackendRestarted reports that the ranks replaced a failed group of backend plugins,
// and continue.
type BackendRestarted struct {
	Generation int     `json:"generation"` // of the backend within this start of the ranks; the first is 1
	Step       int     `json:"step"`       // the current one
	Cause      string  `json:"cause"`      // whose plugin died, and how
	TookMS     float64 `json:"took_ms"`    // since this rank noticed the failure
}

// PluginRestarted reports that a rank replaced one of its plugins and continues. Backends
// are replaced on all ranks at once: see [BackendRestarted].
type PluginRestarted struct {
	Type      string  `json:"type"`                // "dataset" or "precision"
	Name      string  `json:"name"`                // as in the configuration
	PID       int     `json:"pid"`                 // of the new process
	Restart   int     `json:"restart"`             // how often this rank has replaced it, from 1
	Operation string  `json:"operation,omitempty"` // the one that the old process was executing
	Cause     string  `json:"cause"`               // how the old process ended
	TookMS    float64 `json:"took_ms"`             // until the new process had caught up with the old one
}

// BackendPlaced reports where a backend runs, for a backend that can run in the rank's process or in its own.
type BackendPlaced struct {
	Backend   string `json:"backend"`
	InProcess bool   `json:"in_process"` // in the rank's process
	PID       int    `json:"pid"`        // of its process, else 0
	Reason    string `json:"reason"`
}

// PluginFailed reports that a rank ends because the process of one of its plugins hangs
// or has died.
type PluginFailed struct {
	Type      string `json:"type"` // "backend", "dataset" or "precision"
	Name      string `json:"name"` // as in the configuration
	PID       int    `json:"pid"`
	Operation string `json:"operation"` // the one that it was executing: "all_reduce #12", "fill", "open"
	Hung      bool   `json:"hung"`      // it did not respond, or did not complete the operation in time; else it died
	Cause     string `json:"cause"`
}

// Refused reports that a rank ends before its first step because of a mistake in the
// configuration, or in the data it refers to. Problems with a key of the configuration
// are in lists of equal length.
type Refused struct {
	Message string   `json:"message"` // the whole error, for problems without a key
	Keys    []string `json:"keys,omitempty"`
	Details []string `json:"details,omitempty"`
	Help    []string `json:"help,omitempty"`
}

// RankFailed is the launcher's report of a dead rank.
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

// RankDone reports that all of a rank's work is done and that it is about to exit. A
// launcher accepts exit code 0 as success only after it.
type RankDone struct {
	Step int `json:"step"` // the last one
}

// RunDone is the last event.
type RunDone struct {
	Status   string  `json:"status"` // "ok", "failed", "diverged", "preempted", "interrupted"
	Step     int     `json:"step"`
	Loss     float64 `json:"loss"`                     // mean over ranks of the last steps
	Accuracy float64 `json:"accuracy" omit:"negative"` // of the last evaluation; negative: none, left out
	TotalS   float64 `json:"total_s"`
	ExitCode int     `json:"exit_code"`
	Message  string  `json:"message,omitempty"`
}

// Millis is a duration in milliseconds, as events and summaries have it.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// The names of the events in JSON.

func (*RunStarted) Kind() string       { return "run_started" }
func (*PluginStarted) Kind() string    { return "plugin_started" }
func (*RankStarted) Kind() string      { return "rank_started" }
func (*PhaseChanged) Kind() string     { return "phase" }
func (*DatasetOpened) Kind() string    { return "dataset" }
func (*PlanMade) Kind() string         { return "plan" }
func (*StepDone) Kind() string         { return "step" }
func (*BucketsChosen) Kind() string    { return "buckets" }
func (*Shares) Kind() string           { return "shares" }
func (*EvalDone) Kind() string         { return "eval" }
func (*CheckpointSaved) Kind() string  { return "checkpoint_saved" }
func (*CheckpointLoaded) Kind() string { return "checkpoint_loaded" }
func (*ModelInit) Kind() string        { return "model_init" }
func (*EarlyStop) Kind() string        { return "early_stop" }
func (*PluginLog) Kind() string        { return "plugin_log" }
func (*Warning) Kind() string          { return "warning" }
func (*Elastic) Kind() string          { return "elastic" }
func (*BackendRestarted) Kind() string { return "backend_restarted" }
func (*PluginRestarted) Kind() string  { return "plugin_restarted" }
func (*BackendPlaced) Kind() string    { return "backend_placed" }
func (*PluginFailed) Kind() string     { return "plugin_failed" }
func (*Refused) Kind() string          { return "refused" }
func (*RankFailed) Kind() string       { return "rank_failed" }
func (*RankDone) Kind() string         { return "rank_done" }
func (*RunDone) Kind() string          { return "run_done" }

// newRecord returns an empty event of a kind, nil for an unknown kind.
func newRecord(kind string) Event {
	if f, ok := kinds[kind]; ok {
		return f()
	}
	return nil
}

// kinds makes an empty event of each kind.
var kinds = func() map[string]func() Event {
	made := map[string]func() Event{}
	for _, e := range []Event{
		(*RunStarted)(nil), (*RankStarted)(nil), (*PluginStarted)(nil), (*BucketsChosen)(nil), (*Shares)(nil),
		(*PhaseChanged)(nil), (*DatasetOpened)(nil), (*PlanMade)(nil), (*StepDone)(nil),
		(*EvalDone)(nil), (*CheckpointSaved)(nil), (*CheckpointLoaded)(nil), (*ModelInit)(nil), (*EarlyStop)(nil), (*PluginLog)(nil),
		(*Warning)(nil), (*BackendRestarted)(nil), (*PluginRestarted)(nil), (*Elastic)(nil), (*BackendPlaced)(nil), (*PluginFailed)(nil),
		(*Refused)(nil), (*RankFailed)(nil), (*RankDone)(nil), (*RunDone)(nil),
	} {
		t := reflect.TypeOf(e).Elem()
		made[e.Kind()] = func() Event { return reflect.New(t).Interface().(Event) }
	}
	return made
}()
