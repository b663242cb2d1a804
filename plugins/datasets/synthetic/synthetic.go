package synthetic

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/kernel/random"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Values of the option targets.
const (
	targetsClass      = "class"
	targetsRegression = "regression"
)

// Dataset is one synthetic data set. The zero value is ready to be opened.
type Dataset struct {
	spec     sdk.DatasetSpec
	elems    int // of one input
	outputs  int // of one regression target
	keys     [2]uint64
	patterns []float32 // period elements for each class or output
	open     bool
}

// New returns a data set that is not open yet.
func New() *Dataset { return &Dataset{} }

// period is the length of a pattern, which repeats over larger inputs: the
// memory for a thousand classes stays at a megabyte.
const period = 256

// Info describes the data set and its options.
func (d *Dataset) Info() sdk.Info {
	one, none, byteLimit, countLimit := 1.0, 0.0, float64(1<<24), float64(math.MaxInt32)
	return sdk.Info{
		Kind:    sdk.KindDataset,
		Name:    "synthetic",
		Version: "1.0.0",
		Summary: "computed samples of any shape with something to learn, for tests and measurements",
		Options: []sdk.Option{
			{Name: "shape", Type: sdk.IntList, Default: []int64{1, 28, 28}, Min: &one, Max: &byteLimit, Doc: "Dimensions of one input, such as [3, 224, 224]."},
			{Name: "targets", Type: sdk.String, Default: targetsClass, Enum: []string{targetsClass, targetsRegression}, Doc: "Class indices, or real numbers that depend linearly on the input."},
			{Name: "classes", Type: sdk.Int, Default: int64(10), Min: &one, Max: &byteLimit, Doc: "Number of classes, for targets = \"class\"."},
			{Name: "outputs", Type: sdk.Int, Default: int64(1), Min: &one, Max: &byteLimit, Doc: "Numbers in one target, for targets = \"regression\"."},
			{Name: "train_samples", Type: sdk.Int, Default: int64(60000), Min: &one, Max: &countLimit, Unit: "samples", Doc: "Size of the training set."},
			{Name: "test_samples", Type: sdk.Int, Default: int64(10000), Min: &none, Max: &countLimit, Unit: "samples", Doc: "Size of the test set."},
			{Name: "seed", Type: sdk.Int, Doc: "Selects different data for the same options. Default: the seed of the run."},
		},
	}
}

// Limits for options.
const (
	maxElems   = 1 << 28 // of one input
	maxPattern = 1 << 16 // classes or outputs
)

// Open computes the patterns; nothing else is kept.
func (d *Dataset) Open(_ context.Context, req sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	o := req.Options
	shape, err := checkedShape(o)
	if err != nil {
		return sdk.DatasetSpec{}, err
	}
	seed := req.Seed
	if o.Has("seed") {
		seed = uint64(o.Int("seed"))
	}
	spec := sdk.DatasetSpec{
		Source:       "synthetic",
		Input:        tensor.Spec{DType: tensor.F32, Shape: shape},
		TrainSamples: int(o.Int("train_samples")),
		TestSamples:  int(o.Int("test_samples")),
	}
	rows := 0
	if o.String("targets") == targetsRegression {
		d.outputs = int(o.Int("outputs"))
		rows, spec.Target = d.outputs, tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{d.outputs}}
	} else {
		spec.Classes = int(o.Int("classes"))
		rows, spec.Target = spec.Classes, tensor.Spec{DType: tensor.I32}
	}
	d.spec, d.elems, d.open = spec, shape.Elems(), true
	d.keys = [2]uint64{sdk.Train: random.Mix(seed ^ 0x7472), sdk.Test: random.Mix(seed ^ 0x7465)}
	d.patterns = patterns(random.Mix(seed^0x7061), rows)
	d.spec.Fingerprint = fingerprint(d.spec, seed)
	return d.spec, nil
}

func checkedShape(o sdk.Options) (tensor.Shape, error) {
	var l usererr.List
	var shape tensor.Shape
	elems := int64(1)
	for _, n := range o.Ints("shape") {
		shape = append(shape, int(n))
		if elems *= n; elems > maxElems {
			l.Addf("shape", "make the input smaller", "%v has more than %d elements", o.Ints("shape"), maxElems)
			break
		}
	}
	if len(shape) == 0 {
		l.Addf("shape", "give at least one dimension, such as [1, 28, 28]", "is empty")
	}
	for _, key := range []string{"classes", "outputs"} {
		if n := o.Int(key); n > maxPattern {
			l.Addf(key, "", "%d is more than %d", n, maxPattern)
		}
	}
	return shape, l.Err()
}

func fingerprint(s sdk.DatasetSpec, seed uint64) string {
	id := fmt.Sprintf("trainctl synthetic 1 %v %v %d %d %d %d", s.Input, s.Target, s.Classes, s.TrainSamples, s.TestSamples, seed)
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:])
}

var errNotOpen = errors.New("synthetic: the data set is not open")

// Fill computes the samples. It allocates nothing.
func (d *Dataset) Fill(ctx context.Context, b *sdk.Batch) error {
	if !d.open || int(b.Split) >= len(d.keys) {
		return errNotOpen
	}
	if n := len(b.Indices); len(b.Input) != n*d.spec.Input.Bytes() || len(b.Target) != n*d.spec.Target.Bytes() {
		return fmt.Errorf("synthetic: the batch has the wrong size for %d samples: %d and %d bytes", n, len(b.Input), len(b.Target))
	}
	input := tensor.View[float32](b.Input)
	for i, index := range b.Indices {
		if err := ctx.Err(); err != nil {
			return err
		}
		key := d.key(b.Split, index)
		x := input[i*d.elems : (i+1)*d.elems]
		random.Noise(x, key, spread)
		if d.outputs > 0 {
			d.teach(tensor.View[float32](b.Target)[i*d.outputs:(i+1)*d.outputs], x)
			continue
		}
		class := d.class(key)
		addPattern(x, d.patterns[class*period:(class+1)*period])
		tensor.View[int32](b.Target)[i] = int32(class)
	}
	return nil
}

// key seeds the numbers of one sample, and class is that of the sample of a key.
func (d *Dataset) key(s sdk.Split, index int64) uint64 {
	return random.Mix(d.keys[s] + uint64(index)*golden)
}

func (d *Dataset) class(key uint64) int {
	return int(random.Mix(key) >> 32 * uint64(d.spec.Classes) >> 32)
}

// TrainClasses returns the class of every training sample; nil for regression.
func (d *Dataset) TrainClasses() []int32 {
	if d.spec.Classes == 0 {
		return nil
	}
	classes := make([]int32, d.spec.TrainSamples)
	for i := range classes {
		classes[i] = int32(d.class(d.key(sdk.Train, int64(i))))
	}
	return classes
}

// Close releases the patterns. It may be called more than once.
func (d *Dataset) Close() error {
	*d = Dataset{}
	return nil
}

var _ sdk.Dataset = (*Dataset)(nil)
