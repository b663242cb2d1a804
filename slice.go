package trainctl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Slice is a data set of Go values in memory. A sample has a class, or with Target a target of
// numbers. Its functions are called concurrently by ranks that are threads, and must give the same
// for the same value.
//
//	points := trainctl.Slice[Point]{
//		Train: train, Test: test, Shape: []int{2}, Classes: 2,
//		Input: func(p Point, x []float32) { x[0], x[1] = p.X, p.Y },
//		Class: func(p Point) int { return p.Class },
//	}
//	trainctl.Run(ctx, cfg, trainctl.Dataset(points.New))
type Slice[T any] struct {
	Name        string // in messages and files; "" is "slice"
	Train, Test []T

	Shape []int                     // of an input, without the batch
	Input func(v T, into []float32) // writes the input of a sample, of as many numbers as Shape has

	Classes    int      // number of classes
	ClassNames []string // of all classes, or none
	Class      func(v T) int

	TargetShape []int                     // instead of Classes
	Target      func(v T, into []float32) // instead of Class
}

// New returns an instance of the data set, for [Dataset].
func (s Slice[T]) New() sdk.Dataset { return &sliceDataset[T]{Slice: s} }

type sliceDataset[T any] struct {
	Slice[T]
	spec sdk.DatasetSpec
}

// Info implements sdk.Dataset.
func (s *sliceDataset[T]) Info() sdk.Info {
	name := s.Name
	if name == "" {
		name = "slice"
	}
	return sdk.Info{Kind: sdk.KindDataset, Name: name, Version: "1.0.0", Summary: "values of the program"}
}

// Describe implements sdk.DatasetDescriber.
func (s *sliceDataset[T]) Describe(sdk.Options) (sdk.DatasetSpec, error) {
	spec := sdk.DatasetSpec{
		Source: "memory", Input: tensor.Spec{DType: tensor.F32, Shape: s.Shape}, TrainSamples: len(s.Train), TestSamples: len(s.Test),
	}
	switch {
	case s.Input == nil || len(s.Shape) == 0:
		return spec, errors.New("trainctl.Slice: Shape and Input are needed, which describe and write the input of a sample")
	case s.Class != nil && s.Classes > 0 && s.Target == nil:
		spec.Target, spec.Classes, spec.ClassNames = tensor.Spec{DType: tensor.I32}, s.Classes, s.ClassNames
	case s.Target != nil && len(s.TargetShape) > 0 && s.Class == nil:
		spec.Target = tensor.Spec{DType: tensor.F32, Shape: s.TargetShape}
	default:
		return spec, errors.New("trainctl.Slice: either Classes and Class, or TargetShape and Target are needed")
	}
	return spec, nil
}

// Open implements sdk.Dataset. The fingerprint is a hash of all samples.
func (s *sliceDataset[T]) Open(ctx context.Context, req sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	var err error
	if s.spec, err = s.Describe(req.Options); err != nil {
		return s.spec, err
	}
	h := sha256.New()
	b := &sdk.Batch{Indices: []int64{0}, Input: tensor.Aligned(s.spec.Input.Bytes()), Target: tensor.Aligned(s.spec.Target.Bytes())}
	for split, values := range [][]T{sdk.Train: s.Train, sdk.Test: s.Test} {
		b.Split = sdk.Split(split)
		for i := range values {
			b.Indices[0] = int64(i)
			if err := errors.Join(ctx.Err(), s.Fill(ctx, b)); err != nil {
				return s.spec, err
			}
			h.Write(b.Input)
			h.Write(b.Target)
		}
	}
	s.spec.Fingerprint = hex.EncodeToString(h.Sum(nil))
	return s.spec, nil
}

// Fill implements sdk.Dataset.
func (s *sliceDataset[T]) Fill(_ context.Context, b *sdk.Batch) error {
	values := s.Train
	if b.Split == sdk.Test {
		values = s.Test
	}
	inputs, n := tensor.View[float32](b.Input), s.spec.Input.Shape.Elems()
	for i, index := range b.Indices {
		v := values[index]
		s.Input(v, inputs[i*n:][:n:n])
		if err := s.target(b, i, v); err != nil {
			return fmt.Errorf("sample %d: %w", index, err)
		}
	}
	return nil
}

// target writes the target of sample i of a batch.
func (s *sliceDataset[T]) target(b *sdk.Batch, i int, v T) error {
	if s.Target != nil {
		n := s.spec.Target.Shape.Elems()
		s.Target(v, tensor.View[float32](b.Target)[i*n:][:n:n])
		return nil
	}
	c := s.Class(v)
	if c < 0 || c >= s.Classes {
		return fmt.Errorf("its class is %d; fix: Class returns 0 to %d, and Classes is the number of classes", c, s.Classes-1)
	}
	tensor.View[int32](b.Target)[i] = int32(c)
	return nil
}

// Close implements sdk.Dataset.
func (s *sliceDataset[T]) Close() error { return nil }
