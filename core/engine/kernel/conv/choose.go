package conv

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/direct"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/im2col"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/images"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/interleaved"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/planes"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/product"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/winograd"
)

// Algorithm is a way to compute a convolution in float32 with vectors. Columns also
// takes every other type, and runs where there are no vectors.
type Algorithm uint8

// The algorithms. Each has a package of its own (im2col, direct, winograd, product, planes, images, interleaved),
// but for Lanes, which shares Winograd's kernels.
const (
	Columns Algorithm = iota
	Direct
	Winograd
	Product
	Planes
	Lanes
	Images
	Interleaved
	Algorithms // how many there are
)

var algorithmNames = [Algorithms]string{"columns", "direct", "winograd", "product", "planes", "lanes", "images", "interleaved"}

// String is the name that `trainctl bench kernels --algorithms` prints.
func (a Algorithm) String() string { return algorithmNames[a] }

// forced is what Force asks for, or Algorithms.
var forced = Algorithms

// Force makes convolutions that it can compute use an algorithm, until restore is
// called. It is for tests and measurements: no convolution may run meanwhile.
func Force(a Algorithm) (restore func()) {
	old := forced
	forced = a
	return func() { forced = old }
}

// Takes reports whether an algorithm can compute a direction at the active level.
func Takes(p *Shape, a Algorithm, d Direction) bool {
	if kernel.Current() == kernel.Generic {
		return a == Columns
	}
	switch a {
	case Direct:
		return direct.Takes(p, d)
	case Winograd:
		return winograd.Takes(p)
	case Product:
		return product.Takes(p, d)
	case Planes:
		return planes.Takes(p, d)
	case Lanes:
		return d == ToWeight && winograd.TakesLanes(p)
	case Images:
		return images.Takes(p)
	case Interleaved:
		return interleaved.Takes(p)
	}
	return true
}

// Choose is the algorithm that computes a direction at the active level in float32:
// the one that the model of package cost finds cheapest for the images of the batch, of which it is the same for all shares.
func Choose(p *Shape, d Direction) Algorithm {
	if forced < Algorithms && Takes(p, forced, d) {
		return forced
	}
	if kernel.Current() == kernel.Generic {
		return Columns
	}
	if winograd.Disabled {
		batch := *p
		batch.N = min(p.Images(), manyImages)
		return cheapest(&batch, d)
	}
	return choices.OfBatch(p, manyImages, d, func(p *Shape) Algorithm { return cheapest(p, d) })
}

// manyImages are so many that what weights take no longer counts: the same algorithm computes batches of more.
const manyImages = 32

// choices are the algorithms that have been chosen, from all that there are.
var choices geometry.Memo[Algorithm]

// cheapest is the algorithm with the lowest cost. Images that do not fill vectors are left to other algorithms anyway.
func cheapest(p *Shape, d Direction) Algorithm {
	best, least := Columns, 0.0
	for a := range Algorithms {
		if !Takes(p, a, d) || a == Images && !images.Fill(p, d) {
			continue
		}
		if c := costOf(p, a, d); least == 0 || c < least {
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
	return Choose(p, d)
}

// costOf is the estimated cycles of a direction.
func costOf(p *Shape, a Algorithm, d Direction) float64 {
	if a == Winograd && winograd.Saves(p, d) {
		return 1
	}
	t, rates := termsOf(p, a, d)
	return rates.Cycles(&t)
}

// termsOf is what an algorithm does in a direction, and what that takes. Those that copy images have a rate for copies behind all caches.
func termsOf(p *Shape, a Algorithm, d Direction) (cost.Terms, *cost.Rates) {
	t, rates := ownTerms(p, a, d)
	if d != ToWeight {
		t[cost.Copied] = cost.FarCopies(p.Elems(), p.R*p.S)
	}
	return t, rates
}

// ownTerms is termsOf as the algorithm's package counts it.
func ownTerms(p *Shape, a Algorithm, d Direction) (cost.Terms, *cost.Rates) {
	switch a {
	case Winograd:
		return winograd.Terms(p, d), &winograd.Rates
	case Direct:
		return direct.Terms(p, d), &direct.Rates
	case Product:
		return product.Terms(p, d), &product.Rates
	case Planes:
		return planes.Terms(p, d), &planes.Rates
	case Lanes:
		return winograd.LanesTerms(p), &winograd.LanesRates
	case Images:
		return images.Terms(p, d), &images.Rates
	case Interleaved:
		return interleaved.Terms(p, d), &interleaved.Rates
	}
	return im2col.Terms(p, d), &im2col.Rates
}
