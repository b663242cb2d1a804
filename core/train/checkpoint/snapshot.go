package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint/safetensors"
)

// Snapshot is everything that an exact resume needs. The caller of Save owns
// its tensors and may change them as soon as Save returns; those that Load
// returns are the caller's.
type Snapshot struct {
	Step    int // optimizer steps begun, skipped ones included
	Epoch   int // epoch in progress, from 0; after the last sample of an epoch, the next one
	Applied int // steps applied: the position of the learning rate schedule

	Model     []tensor.Named // parameters and buffers in state-dict order, names without prefix
	Optimizer []tensor.Named // optim.Optimizer.State

	// Aliases are the other names of tied tensors of Model, and the names that these
	// have there. Save writes them into the metadata of the model's file.
	Aliases map[string]string

	Optional

	Scaler  map[string]float64 // precision plugin's state; empty: none
	Watched map[string]float64 // state of a plateau schedule and of early stopping, which evaluations drive; empty: none
	Sampler Sampler
	Seed    uint64 // of the run: initialisation, dropout and augmentation draw from it by position
	Dataset Dataset
	Plugins []Plugin // that wrote it together; informative

	Metrics map[string]float64 // measured at this step: "train.loss", "eval.loss", "eval.accuracy", …
	Best    *Best              // set by Load; Save writes the store's own

	Config     string // the resolved configuration as TOML
	WorldSize  int
	Precision  string // policy's name
	Parameters int    // how many of Model are parameters; informative
	CreatedBy  string // version that wrote it
}

// Optional are the tensors that only some runs have.
type Optional struct {
	// Compression is the error feedback of a lossy compression on all ranks, to be
	// added to the gradients of the next step; empty: none.
	Compression []tensor.Named

	// Average holds the tensors of Model with moving averages in place of the weights; empty: there are none.
	// Save writes them so that they can be loaded as weights. Load does not read them: a resumed run takes the
	// averages from Optimizer.
	Average []tensor.Named
}

// Sampler is the position in the data.
type Sampler struct {
	Seed      uint64 `json:"seed"`
	Epoch     int    `json:"epoch"`
	Offset    int    `json:"offset"` // Consumed / WorldSize, what versions before Consumed read
	WorldSize int    `json:"world_size"`
	Batch     int    `json:"batch"`      // per rank
	OrderHash string `json:"order_hash"` // over this epoch's order
	Shuffle   bool   `json:"shuffle"`
	DropLast  bool   `json:"drop_last"`

	// Consumed is how many samples of this epoch's order all ranks together consumed. Checkpoints
	// without it have Offset · WorldSize.
	Consumed   int `json:"consumed,omitempty"`
	StepBatch  int `json:"step_batch,omitempty"`  // samples of an optimizer step; 0: unknown
	FirstBatch int `json:"first_batch,omitempty"` // the same when the run began; 0: unknown
}

// Done is Consumed, also of a checkpoint that does not have it.
func (s Sampler) Done() int {
	if s.Consumed == 0 {
		return s.Offset * s.WorldSize
	}
	return s.Consumed
}

// Dataset identifies the data a run was trained on.
type Dataset struct {
	Plugin      string   `json:"plugin"`
	Source      string   `json:"source"`
	Fingerprint string   `json:"fingerprint"`
	Classes     []string `json:"classes,omitempty"` // names by index, where the data set knows them
}

// Plugin is a plugin of the run.
type Plugin struct {
	Type    string `json:"type"` // "backend", "precision", "dataset"
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Path    string `json:"path"`             // of its executable
	SHA256  string `json:"sha256,omitempty"` // of the executable, hexadecimal
}

// Best is the best value so far of the metric that keep_best names.
type Best struct {
	Metric string  `json:"metric"`
	Value  float64 `json:"value"`
	Step   int     `json:"step"`
}

// Report describes what Load loaded, skipped and adapted.
type Report struct {
	Path    string // what was loaded
	Skipped []Skip // newer ones that could not be used
	Notes   []string
}

// Skip is a checkpoint that Load skipped.
type Skip struct {
	Path   string
	Reason error
}

func (s Skip) String() string { return fmt.Sprintf("%s: %v", s.Path, s.Reason) }

// Fix is what to do about it, to be put behind the reason; "" if the reason says it, or nothing helps.
func (s Skip) Fix() string {
	switch {
	case strings.Contains(s.Reason.Error(), "fix: "):
		return ""
	case s.damaged():
		return "; fix: restore its files from a copy, or use another checkpoint of the run"
	case errors.Is(s.Reason, ErrNone):
		return "; fix: give the folder of a run, or of a checkpoint"
	case errors.Is(s.Reason, safetensors.ErrFormat):
		return "; fix: give a safetensors file, or the folder of a run or of a checkpoint"
	}
	return ""
}

// damaged reports whether a file of the checkpoint has another content, or is missing.
func (s Skip) damaged() bool {
	var missing *fs.PathError
	return errors.Is(s.Reason, ErrChecksum) || errors.As(s.Reason, &missing) && errors.Is(missing, fs.ErrNotExist) && missing.Path != s.Path
}

// ErrNone reports that there is no checkpoint: with resume = auto, the run starts from
// scratch.
var ErrNone = errors.New("no checkpoint")

// UnusableError reports that checkpoints exist, or that one was selected, but none can
// be loaded. The process ends with exit code 6.
type UnusableError struct {
	Path    string
	Skipped []Skip
}

func (e *UnusableError) Error() string {
	if len(e.Skipped) == 1 && e.Skipped[0].Path == e.Path {
		return fmt.Sprintf("checkpoint %s cannot be used: %v%s", e.Path, e.Skipped[0].Reason, e.Skipped[0].Fix())
	}
	var b strings.Builder
	fmt.Fprintf(&b, "no usable checkpoint in %s:", e.Path)
	for _, s := range e.Skipped {
		fmt.Fprintf(&b, "\n  %v", s)
	}
	if slices.ContainsFunc(e.Skipped, Skip.damaged) {
		b.WriteString("\nfix: restore the files of one of them from a copy, or start without a checkpoint")
	}
	return b.String()
}

// ErrUnusable matches every *UnusableError in errors.Is.
var ErrUnusable = errors.New("checkpoint unusable")

// Is makes errors.Is(err, ErrUnusable) true.
func (e *UnusableError) Is(target error) bool { return target == ErrUnusable }

// Unwrap gives the reasons.
func (e *UnusableError) Unwrap() []error {
	errs := make([]error, len(e.Skipped))
	for i, s := range e.Skipped {
		errs[i] = s.Reason
	}
	return errs
}

// copyFrom makes s a deep copy, reusing the memory of the copy before.
func (s *Snapshot) copyFrom(o *Snapshot) {
	model, optimizer, compression, average := s.Model, s.Optimizer, s.Compression, s.Average
	*s = *o
	s.Model = copyTensors(model, o.Model)
	s.Optimizer = copyTensors(optimizer, o.Optimizer)
	s.Compression = copyTensors(compression, o.Compression)
	s.Average = copyTensors(average, o.Average)
	s.Scaler, s.Metrics, s.Watched = maps.Clone(o.Scaler), maps.Clone(o.Metrics), maps.Clone(o.Watched)
}

func copyTensors(dst, src []tensor.Named) []tensor.Named {
	if len(dst) != len(src) {
		dst = make([]tensor.Named, len(src))
	}
	for i, t := range src {
		room := dst[i].Data
		if len(room) != len(t.Data) {
			room = tensor.Aligned(len(t.Data))
		}
		copy(room, t.Data)
		dst[i] = tensor.Named{Name: t.Name, Tensor: tensor.Of(t.DType, t.Shape.Clone(), room)}
	}
	return dst
}
