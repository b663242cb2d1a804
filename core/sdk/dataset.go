package sdk

import (
	"context"
	"log/slog"

	"github.com/trainctl/trainctl/core/tensor"
)

// Dataset reads samples by index. The core decides order, sharding and epochs.
type Dataset interface {
	Info() Info

	// Open finds and verifies the data, and downloads it if needed. It checks every
	// size and checksum, so that reading later cannot fail for a reason that Open
	// could have found. Local ranks call it concurrently.
	Open(ctx context.Context, req DatasetRequest) (DatasetSpec, error)

	// Fill writes the samples with the given indices, in that order, into
	// Input and Target. Transforms that draw random numbers seed them from
	// (Seed, Epoch, index) so that a batch does not depend on who reads it.
	// ErrEndOfData ends this rank's epoch before the batch.
	Fill(ctx context.Context, b *Batch) error

	Close() error
}

// DatasetDescriber is a data set whose shape and sizes follow from its options.
// `trainctl plan` calls it instead of opening anything; Source and Fingerprint stay
// empty.
type DatasetDescriber interface {
	Describe(options Options) (DatasetSpec, error)
}

// DatasetLocator is a data set that can check whether Open would find data on this
// machine, without reading or downloading any. The launcher of a job on one host
// calls it before it starts ranks; an error names the places and the fixes.
type DatasetLocator interface {
	Locate(options Options) error
}

// DatasetClasses is a data set that knows the classes of its training samples without reading
// them. `[dataset] validation` then holds out the same share of each class.
type DatasetClasses interface {
	// TrainClasses returns the class of every training sample after Open. The caller does
	// not change the slice.
	TrainClasses() []int32
}

// DatasetReader is a data set that reads files which it was not opened with, as inputs of its test
// split: with its transform, and without labels. `trainctl predict` calls it within its own process.
type DatasetReader interface {
	// Extensions are those of the files that Read knows, such as ".png".
	Extensions() []string

	// Read returns the inputs of a file's samples, at least one, each of Spec.Input.Bytes() bytes.
	Read(options Options, path string) ([]byte, error)
}

// DatasetRequest is the argument of Open.
type DatasetRequest struct {
	Options   Options
	Rank      int
	LocalRank int
	WorldSize int
	Seed      uint64
	// Validation says that the host holds training samples out, see Batch.NoAugment.
	Validation bool
	// HeldOut is their share of the training samples. [HoldOut] says which they are, to a plugin that
	// combines training samples.
	HeldOut float64
	// Log reaches the user's progress output. Attributes "done" and "total"
	// (bytes) on a record make it a progress line.
	Log *slog.Logger
}

// Split selects a part of the data.
type Split uint8

// The splits.
const (
	Train Split = iota
	Test
)

// IgnoreIndex is the class of a target that is ignored in the loss, in gradients and in accuracy:
// PyTorch's ignore_index.
const IgnoreIndex = -100

// DatasetSpec describes an open data set. It must be equal on all ranks, or the job ends.
type DatasetSpec struct {
	Source       string      // where it came from: "idx", "download", "generated", "synthetic", …
	Input        tensor.Spec // one sample, without the batch dimension: F32, or I32 (indices, such as the tokens of a text)
	Target       tensor.Spec // one target: I32 class indices, a scalar or one per position, or F32 of any shape (regression, and with Classes as last dimension their probabilities)
	Vocabulary   int         // I32 inputs are in [0, Vocabulary); 0 for F32 inputs
	Classes      int         // I32 targets are in [0, Classes), or [IgnoreIndex]; F32 targets [..., Classes] are probabilities that add up to 1; 0 for regression
	ClassNames   []string    // of all classes, or none
	TrainSamples int
	TestSamples  int
	TestBytes    int64  // bytes of text that the targets of the test split stand for, for bits per byte; 0: unknown
	Tokenizer    string // of a text: "bytes", "chars" (ClassNames are the characters) or the path of a tokenizer.json; "": not known, or no text
	Fingerprint  string // hash over the content or its identity; resuming on other data is refused
	Notice       string // shown as a warning if not empty ("training on generated digits: …")

	// Validation says how the host chose the test split from the training samples, where
	// `[dataset] validation` is set. Plugins leave it empty.
	Validation string
}

// Tokens is the number of targets of a sample where each position has a class, as in
// language modelling; 0 otherwise.
func (s *DatasetSpec) Tokens() int {
	if s.Target.DType != tensor.I32 || len(s.Target.Shape) == 0 {
		return 0
	}
	return s.Target.Shape.Elems()
}

// Batch is one request for samples. It and its memory belong to the host, which
// shares the memory; both may be read and written until Fill returns.
type Batch struct {
	Split Split
	Epoch int
	Seed  uint64 // of the run

	// NoAugment is set for training samples that are held out for validation: they are
	// read as test samples are, without random transforms, whatever the epoch.
	NoAugment bool

	Indices []int64 // n sample indices within the split, in range
	Input   []byte  // n · Spec.Input.Bytes(), to be filled
	Target  []byte  // n · Spec.Target.Bytes(), to be filled
}
