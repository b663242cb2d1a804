package conv

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Direction is what of a convolution is computed.
type Direction uint8

// The three products of a training step.
const (
	ToOutput Direction = iota // Forward
	ToInput                   // GradInput
	ToWeight                  // GradWeight
)

// Algorithm is a way to compute a convolution in float32 with vectors. Columns also
// takes every other type, and runs where there are no vectors.
type Algorithm uint8

// The algorithms. Each has a file of its own: im2col.go, direct.go, winograd.go,
// product.go, planes.go and lanes_weight.go.
const (
	Columns Algorithm = iota
	Direct
	Winograd
	Product
	Planes
	Lanes
	algorithms
)

var algorithmNames = [algorithms]string{"columns", "direct", "winograd", "product", "planes", "lanes"}

func (a Algorithm) String() string { return algorithmNames[a] }

// forced is what Force asks for, or algorithms.
var forced = algorithms

// Force makes convolutions that it can compute use an algorithm, until restore is
// called. It is for tests and measurements: no convolution may run meanwhile.
func Force(a Algorithm) (restore func()) {
	old := forced
	forced = a
	return func() { forced = old }
}

// Takes reports whether an algorithm can compute a direction at the active level.
func (p *Shape) Takes(a Algorithm, d Direction) bool {
	if kernel.Current() == kernel.Generic {
		return a == Columns
	}
	switch a {
	case Direct:
		return p.direct() && (d != ToWeight || p.directWeight())
	case Winograd:
		return p.winograd()
	case Product:
		return p.disjoint()
	case Planes:
		return p.planes(d)
	case Lanes:
		return d == ToWeight && p.lanesWeight()
	}
	return true
}

// Choose is the algorithm that computes a direction at the active level in float32:
// the one that the model of costs.go finds cheapest. It does not depend on the number of
// images, so that shares of a batch, and an evaluation, go the same way.
func (p *Shape) Choose(d Direction) Algorithm {
	if forced < algorithms && p.Takes(forced, d) {
		return forced
	}
	if kernel.Current() == kernel.Generic {
		return Columns
	}
	const images = 32
	batch := *p
	batch.N = images
	best, least := Columns, 0.0
	for a := range algorithms {
		if !p.Takes(a, d) {
			continue
		}
		if c := batch.cost(a, d); least == 0 || c < least {
			best, least = a, c
		}
	}
	return best
}

// choose is Choose for the element type T.
func choose[T kernel.Float](p *Shape, d Direction) Algorithm {
	if !kernel.Is32[T]() {
		return Columns
	}
	return p.Choose(d)
}

// String is the geometry in one line, as PyTorch's arguments read.
func (p *Shape) String() string {
	s := fmt.Sprintf("%dx%dx%dx%d, %d of %dx%d/%d", p.N, p.C, p.H, p.W, p.K, p.R, p.S, p.StrideH)
	if p.StrideW != p.StrideH {
		s += fmt.Sprintf("x%d", p.StrideW)
	}
	if p.dilH() > 1 || p.dilW() > 1 {
		s += fmt.Sprintf(", dilation %dx%d", p.dilH(), p.dilW())
	}
	if p.groups() > 1 {
		s += fmt.Sprintf(", %d groups", p.groups())
	}
	return s
}
