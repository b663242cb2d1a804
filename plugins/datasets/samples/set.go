package samples

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Part is a split: inputs and targets of the same samples.
type Part struct{ Input, Target *Array }

// Set is the samples of both splits, as a data set serves them. The zero value is not open.
type Set struct {
	spec  sdk.DatasetSpec
	parts [2]Part // by sdk.Split; no input: empty
	scale *scale
	row   []float64
}

// New checks samples and describes them. test may be empty. If the settings have no class names,
// the data may provide them.
func New(s Settings, source string, train, test Part) (*Set, error) {
	d := &Set{parts: [2]Part{sdk.Train: train, sdk.Test: test}}
	d.spec.Source = source
	for _, p := range d.parts {
		if err := p.check(train); err != nil {
			return nil, err
		}
	}
	shape, err := s.inputShape(train.Input.Shape[1:])
	if err != nil {
		return nil, err
	}
	d.spec.TrainSamples, d.spec.TestSamples = train.samples(), test.samples()
	d.spec.Input = tensor.Spec{DType: tensor.F32, Shape: shape}
	if s.index {
		err = d.indices()
	} else {
		d.scale, err = s.scale(train.Input, shape)
	}
	if err != nil {
		return nil, err
	}
	if err := d.targets(s); err != nil {
		return nil, err
	}
	d.row = make([]float64, max(shape.Elems(), d.spec.Target.Shape.Elems()))
	d.spec.Fingerprint = d.fingerprint(s)
	return d, nil
}

func (p Part) samples() int {
	if p.Input == nil {
		return 0
	}
	return p.Input.Samples()
}

// check compares the arrays of a split with each other and with those of the training split.
func (p Part) check(train Part) error {
	if p.Input == nil {
		return nil
	}
	in, target := p.Input, p.Target
	switch {
	case in.Samples() == 0:
		return fmt.Errorf("%s has no samples", in.Name)
	case in.Samples() != target.Samples():
		return fmt.Errorf("%s has %d samples and %s %d; they must have equally many", in.Name, in.Samples(), target.Name, target.Samples())
	case !in.Shape[1:].Equal(train.Input.Shape[1:]):
		return fmt.Errorf("%s has samples of %v and %s of %v; they must have one shape", train.Input.Name, train.Input.Shape[1:], in.Name, in.Shape[1:])
	case !target.Shape[1:].Equal(train.Target.Shape[1:]):
		return fmt.Errorf("%s has targets of %v and %s of %v; they must have one shape", train.Target.Name, train.Target.Shape[1:], target.Name, target.Shape[1:])
	}
	return errors.Join(in.checkFinite(), target.checkFinite())
}

// indices describes inputs that are indices of an embedding.
func (d *Set) indices() error {
	d.spec.Input.DType = tensor.I32
	for _, p := range d.parts {
		if p.Input == nil {
			continue
		}
		lo, hi, err := p.Input.bounds("indices", `set input_type = "float"`)
		if err != nil {
			return err
		}
		if lo < 0 {
			return fmt.Errorf("%s has the negative index %d; set input_type = %q, or count from 0", p.Input.Name, lo, inputFloat)
		}
		d.spec.Vocabulary = max(d.spec.Vocabulary, int(hi)+1)
	}
	return nil
}

// targets describes the targets. Classes are integers from 0 on, or sdk.IgnoreIndex.
func (d *Set) targets(s Settings) error {
	shape := d.parts[sdk.Train].Target.Shape[1:]
	if !s.Classify {
		if len(shape) == 0 {
			shape = tensor.Shape{1}
		}
		d.spec.Target = tensor.Spec{DType: tensor.F32, Shape: shape}
		return nil
	}
	d.spec.Target = tensor.Spec{DType: tensor.I32, Shape: shape}
	d.spec.Classes, d.spec.ClassNames = len(s.Classes), s.Classes
	for split, p := range d.parts {
		if p.Input == nil {
			continue
		}
		_, hi, err := p.Target.bounds("classes", `set task = "regression" for targets that are real numbers`)
		if err == nil {
			err = p.Target.checkClasses()
		}
		if err != nil {
			return err
		}
		if n := int(hi) + 1; n > d.spec.Classes && (s.Classes != nil || split == int(sdk.Test)) {
			return usererr.Errorf("classes", "name all classes, by index", "%s has the class %d, and there are %d", p.Target.Name, hi, d.spec.Classes)
		}
		d.spec.Classes = max(d.spec.Classes, int(hi)+1)
	}
	return nil
}

func (a *Array) checkClasses() error {
	return a.each(func(sample int, values []float64) error {
		for _, v := range values {
			if v < 0 && v != sdk.IgnoreIndex {
				return fmt.Errorf("%s: the class of sample %d is %v; classes are integers from 0 on, and %d counts for nothing", a.Name, sample, v, sdk.IgnoreIndex)
			}
		}
		return nil
	})
}

// fingerprint is the SHA-256 of all data and of the settings that convert it.
func (d *Set) fingerprint(s Settings) string {
	h := sha256.New()
	fmt.Fprintf(h, "%v %v %v", d.spec, s, d.scale)
	for _, p := range d.parts {
		if p.Input != nil {
			fmt.Fprint(h, p.Input.Kind, p.Input.Shape, p.Target.Kind, p.Target.Shape)
			h.Write(p.Input.Data)
			h.Write(p.Target.Data)
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// Spec describes the set.
func (d *Set) Spec() sdk.DatasetSpec { return d.spec }

var errNotOpen = errors.New("samples: the data set is not open")

// Fill writes the samples of a batch. It allocates nothing.
func (d *Set) Fill(ctx context.Context, b *sdk.Batch) error {
	if d.spec.Source == "" || int(b.Split) >= len(d.parts) {
		return errNotOpen
	}
	p, n := d.parts[b.Split], len(b.Indices)
	if len(b.Input) != n*d.spec.Input.Bytes() || len(b.Target) != n*d.spec.Target.Bytes() {
		return fmt.Errorf("samples: the batch has the wrong size for %d samples: %d and %d bytes", n, len(b.Input), len(b.Target))
	}
	in, target := d.spec.Input.Shape.Elems(), d.spec.Target.Shape.Elems()
	for i, index := range b.Indices {
		if err := ctx.Err(); err != nil {
			return err
		}
		if index < 0 || index >= int64(p.samples()) {
			return fmt.Errorf("samples: sample %d of %d", index, p.samples())
		}
		p.Input.Row(d.row[:in], int(index))
		if d.spec.Input.DType == tensor.I32 {
			integers(tensor.View[int32](b.Input)[i*in:], d.row[:in])
		} else {
			d.scale.write(tensor.View[float32](b.Input)[i*in:], d.row[:in])
		}
		p.Target.Row(d.row[:target], int(index))
		if d.spec.Target.DType == tensor.I32 {
			integers(tensor.View[int32](b.Target)[i*target:], d.row[:target])
		} else {
			(*scale)(nil).write(tensor.View[float32](b.Target)[i*target:], d.row[:target])
		}
	}
	return nil
}

// write normalises a sample in float64 and rounds once.
func (s *scale) write(dst []float32, values []float64) {
	for j, v := range values {
		if s != nil {
			v = (v - s.mean[j]) / s.std[j]
		}
		dst[j] = float32(v)
	}
}

func integers(dst []int32, values []float64) {
	for j, v := range values {
		dst[j] = int32(v)
	}
}

// Inputs are samples that have no targets, as inputs of the test split of a data set that is trained on
// others.
func Inputs(s Settings, train, given *Array) ([]byte, error) {
	blank := func(a *Array) Part {
		n := a.Shape[0]
		return Part{a, &Array{Name: a.Name, Kind: "u1", Shape: tensor.Shape{n}, Data: make([]byte, n)}}
	}
	d, err := New(s, given.Name, blank(train), blank(given))
	if err != nil {
		return nil, err
	}
	n := given.Samples()
	b := &sdk.Batch{Split: sdk.Test, Input: tensor.Aligned(n * d.spec.Input.Bytes()), Target: tensor.Aligned(n * d.spec.Target.Bytes())}
	for i := range n {
		b.Indices = append(b.Indices, int64(i))
	}
	return b.Input, d.Fill(context.Background(), b)
}

// Close releases the samples. It may be called more than once.
func (d *Set) Close() error {
	*d = Set{}
	return nil
}

// TrainClasses returns the class of every training sample, if samples have one.
func (d *Set) TrainClasses() []int32 {
	if d.spec.Classes == 0 || len(d.spec.Target.Shape) > 0 {
		return nil
	}
	classes := make([]int32, 0, d.spec.TrainSamples)
	_ = d.parts[sdk.Train].Target.each(func(_ int, values []float64) error {
		classes = append(classes, int32(values[0]))
		return nil
	})
	return classes
}
