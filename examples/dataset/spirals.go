package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Spirals is one instance of the data set. trainctl makes one for every rank
// and calls it from one goroutine at a time.
type Spirals struct {
	points [2][]point // by sdk.Split; nil before Open
}

type point struct {
	x, y  float32
	class int32
}

// Info returns what `trainctl plugins info` prints. trainctl checks the user's
// [dataset.options] against Options, fills in the defaults, and reports
// mistakes with file and line: Open sees only values of the right type.
func (s *Spirals) Info() sdk.Info {
	zero, one := 0.0, 1.0
	return sdk.Info{
		Kind:    sdk.KindDataset,
		Name:    "spirals",
		Version: "1.0.0",
		Summary: "two interleaved spirals, a small problem that no linear model solves",
		Options: []sdk.Option{
			{Name: "turns", Type: sdk.Float, Default: 1.5, Min: &zero, Doc: "Turns of each arm; more turns are harder to learn."},
			{Name: "noise", Type: sdk.Float, Default: 0.02, Min: &zero, Doc: "Standard deviation of the distance from the arm; the spiral has radius 1."},
			{Name: "train_samples", Type: sdk.Int, Default: int64(4000), Min: &one, Unit: "samples", Doc: "Size of the training set."},
			{Name: "test_samples", Type: sdk.Int, Default: int64(1000), Min: &one, Unit: "samples", Doc: "Size of the test set."},
		},
	}
}

// Open prepares the data. They must be equal on all ranks, so they depend only on the
// options and the seed of the run.
func (s *Spirals) Open(_ context.Context, req sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	turns, noise := req.Options.Float("turns"), req.Options.Float("noise")
	if turns == 0 {
		return sdk.DatasetSpec{}, usererr.List{{Key: "turns", Detail: "0 turns give straight lines", Help: "write 1.5"}}.Err()
	}
	s.points = [2][]point{
		sdk.Train: draw(rand.New(rand.NewPCG(req.Seed, 0)), int(req.Options.Int("train_samples")), turns, noise),
		sdk.Test:  draw(rand.New(rand.NewPCG(req.Seed, 1)), int(req.Options.Int("test_samples")), turns, noise),
	}
	return sdk.DatasetSpec{
		Source:       "generated",
		Input:        tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{2}}, // one sample: x and y
		Target:       tensor.Spec{DType: tensor.I32},                         // a class index
		Classes:      2,
		ClassNames:   []string{"first arm", "second arm"},
		TrainSamples: len(s.points[sdk.Train]),
		TestSamples:  len(s.points[sdk.Test]),
		Fingerprint:  fingerprint(s.points),
	}, nil
}

func draw(r *rand.Rand, n int, turns, noise float64) []point {
	points := make([]point, n)
	for i := range points {
		class := i % 2
		radius := math.Sqrt(r.Float64()) // evenly spread along the arm
		angle := 2*math.Pi*turns*radius + math.Pi*float64(class)
		points[i] = point{
			x:     float32(radius*math.Cos(angle) + noise*r.NormFloat64()),
			y:     float32(radius*math.Sin(angle) + noise*r.NormFloat64()),
			class: int32(class),
		}
	}
	return points
}

// fingerprint identifies the data: trainctl refuses to resume a run with other data.
func fingerprint(points [2][]point) string {
	h := sha256.New()
	for _, split := range points {
		fmt.Fprintln(h, len(split), split)
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil))
}

// Fill writes the requested samples directly to memory that it shares with the training
// process.
func (s *Spirals) Fill(_ context.Context, b *sdk.Batch) error {
	points := s.points[b.Split]
	if points == nil {
		return errors.New("the data set is not open")
	}
	input, target := tensor.View[float32](b.Input), tensor.View[int32](b.Target)
	for i, index := range b.Indices {
		p := points[index]
		input[2*i], input[2*i+1] = p.x, p.y
		target[i] = p.class
	}
	return nil
}

// Close is the last call, also after an error.
func (s *Spirals) Close() error {
	s.points = [2][]point{}
	return nil
}
