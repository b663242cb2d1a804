package ddp

import (
	"math"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
	"github.com/trainctl/trainctl/core/tensor"
)

// PowerSGD (Vogels, Karimireddy and Jaggi, 2019; PyTorch's powerSGD_hook.py) sends two thin factors
// in place of a gradient. A matrix M becomes P = M·Q, summed over ranks and made orthonormal, then
// Q = Mᵀ·P, averaged over ranks; all ranks continue with P·Qᵀ. The error of a rank's M is added to
// its next M, and the next step starts with Q.

// minRate is how much smaller the factors have to be than the matrix.
const minRate = 2

// matrix is a gradient that is sent as factors: rows×cols at an element of the bucket,
// of rank r.
type matrix struct {
	param             int
	shape             tensor.Shape
	at, rows, cols, r int
	p, q              int // elements of the factors within their regions
}

// run is a part of a bucket that is sent uncompressed.
type run struct{ at, n int }

// lowRank is the plan of one bucket. Its first message is [rest, all P], its
// second all Q.
type lowRank struct {
	mats   []matrix
	rest   []run
	first  int // elements
	second int
}

// newLowRank decides which gradients of a bucket are worth factoring; nil if
// none is. Only float32 is.
func newLowRank(grads []Gradient, b Bucket, rank int) *lowRank {
	if b.DType != tensor.F32 {
		return nil
	}
	l := &lowRank{}
	for i, p := range b.Params {
		at, n := b.At[i]/b.DType.Size(), grads[p].Shape.Elems()
		if m, ok := factor(grads[p].Shape, rank); ok {
			m.param, m.at = p, at
			l.mats = append(l.mats, m)
		} else {
			l.rest = append(l.rest, run{at, n})
			l.first += n
		}
	}
	for i := range l.mats {
		m := &l.mats[i]
		m.p, m.q = l.first, l.second
		l.first += m.rows * m.r
		l.second += m.cols * m.r
	}
	if l.mats == nil {
		return nil
	}
	return l
}

// factor views a gradient as a matrix of its first dimension by all others.
func factor(s tensor.Shape, rank int) (m matrix, ok bool) {
	if len(s) < 2 || s.Elems() == 0 {
		return m, false
	}
	n := s[0]
	k := s.Elems() / n
	r := min(n, k, rank)
	return matrix{shape: s, rows: n, cols: k, r: r}, (n+k)*r*minRate < n*k
}

// factors are the buckets of a run that are sent as factors, from powersgd_start_step on.
type factors struct {
	buckets []*powerSGD // by bucket, nil where it is always sent uncompressed
	low     []*powerSGD // those of buckets
	start   int         // synchronised steps in which all of them are sent uncompressed
	step    int         // synchronised steps begun
	saved   int         // step at the last save
}

func newFactors(g *Group, cfg Config, grads []Gradient, buckets []Bucket, regions, wire []Region) factors {
	f := factors{buckets: make([]*powerSGD, len(buckets)), start: cfg.PowerSGDStart}
	for i, b := range buckets {
		if l := cfg.lowRank(grads, b); l != nil {
			f.buckets[i] = newPowerSGD(g, l, regions[i], wire[i])
			f.low = append(f.low, f.buckets[i])
		}
	}
	return f
}

// of is how a bucket is sent in the current step, nil if it is sent uncompressed.
func (f *factors) of(bucket int) *powerSGD {
	if f.step <= f.start {
		return nil
	}
	return f.buckets[bucket]
}

// divide sets over how many ranks factors are averaged.
func (f *factors) divide(ranks int) {
	for _, s := range f.low {
		s.over = ranks
	}
}

// save copies the state between steps; rollback restores it.
func (f *factors) save() {
	f.saved = f.step
	for _, s := range f.low {
		s.save()
	}
}

func (f *factors) rollback() {
	f.step = f.saved
	for _, s := range f.low {
		s.rollback()
	}
}

// powerSGD is a bucket that is sent as factors.
type powerSGD struct {
	*lowRank
	over          int // ranks that the average is over
	wire1, wire2  Region
	grad          []float32 // the bucket
	residue       []float32 // what earlier steps left out; in between, this step's input
	first, second []float32 // what is sent
	scratch       []float32

	saved []float32 // residue and second at the last save; nil before
}

func newPowerSGD(g *Group, l *lowRank, bucket, wire Region) *powerSGD {
	s := &powerSGD{
		lowRank: l, over: g.World,
		wire1: Region{wire.Offset, 4 * l.first}, wire2: Region{wire.Offset + 4*l.first, 4 * l.second},
	}
	s.grad = tensor.View[float32](g.Bytes(bucket))
	s.first, s.second = tensor.View[float32](g.Bytes(s.wire1)), tensor.View[float32](g.Bytes(s.wire2))
	s.residue = make([]float32, len(s.grad))
	need := 0
	for _, m := range l.mats {
		rng.NewMT(uint64(m.param)).NormalF32(s.second[m.q:][:m.cols*m.r], 1) // the same on all ranks and in any bucket
		need = max(need, gemm.GemmScratch(m.rows, m.r, m.cols), gemm.GemmScratch(m.cols, m.r, m.rows), gemm.GemmScratch(m.rows, m.cols, m.r))
	}
	s.scratch = make([]float32, need)
	return s
}

// save copies the state that is carried from one step to the next.
func (s *powerSGD) save() {
	if s.saved == nil {
		s.saved = make([]float32, len(s.residue)+len(s.second))
	}
	copy(s.saved[copy(s.saved, s.residue):], s.second)
}

func (s *powerSGD) rollback() { copy(s.second, s.saved[copy(s.residue, s.saved):]) }

// project fills the first message.
func (s *powerSGD) project() {
	elementwise.Axpy(s.grad, 1, s.residue)
	copy(s.residue, s.grad)
	at := 0
	for _, r := range s.rest {
		at += copy(s.first[at:], s.grad[r.at:][:r.n])
	}
	s.factors(false, s.second, s.first)
}

// factors multiplies each gradient, or its transpose, with the orthonormalised factor in from. The
// result, divided for the sum over ranks, is the other factor.
func (s *powerSGD) factors(transposed bool, from, to []float32) {
	for _, m := range s.mats {
		in, out, rows, cols := m.q, m.p, m.rows, m.cols
		if transposed {
			in, out, rows, cols = m.p, m.q, m.cols, m.rows
		}
		factor := from[in:][:cols*m.r]
		orthonormalise(factor, cols, m.r)
		gemm.Gemm(transposed, false, rows, m.r, cols, 1, s.grad[m.at:], m.cols, factor, m.r, 0, to[out:], m.r, s.scratch)
	}
	elementwise.Scale(to, 1/float32(s.over))
}

// answer takes the sum of the first message and fills the second.
func (s *powerSGD) answer() {
	at := 0
	for _, r := range s.rest {
		at += copy(s.grad[r.at:][:r.n], s.first[at:])
	}
	s.factors(true, s.first, s.second)
}

// restore takes the sum of the second message and puts the product in place.
func (s *powerSGD) restore() {
	for _, r := range s.rest {
		clear(s.residue[r.at:][:r.n])
	}
	for _, m := range s.mats {
		g := s.grad[m.at:][:m.rows*m.cols]
		gemm.Gemm(false, true, m.rows, m.cols, m.r, 1, s.first[m.p:], m.r, s.second[m.q:], m.r, 0, g, m.cols, s.scratch)
		elementwise.Axpy(s.residue[m.at:][:len(g)], -1, g)
	}
}

// orthonormalise makes the r columns of a [n, r] matrix orthonormal, by the
// modified Gram–Schmidt process in float64. A column that depends on those
// before it becomes zero.
func orthonormalise(a []float32, n, r int) {
	for j := range r {
		before := norm(a, n, r, j)
		for i := range j {
			var dot float64
			for k := range n {
				dot += float64(a[k*r+i]) * float64(a[k*r+j])
			}
			for k := range n {
				a[k*r+j] -= float32(dot * float64(a[k*r+i]))
			}
		}
		scale := 0.0
		if after := norm(a, n, r, j); after > 1e-6*before {
			scale = 1 / after
		}
		for k := range n {
			a[k*r+j] = float32(float64(a[k*r+j]) * scale)
		}
	}
}

func norm(a []float32, n, r, j int) float64 {
	var sq float64
	for k := range n {
		sq += float64(a[k*r+j]) * float64(a[k*r+j])
	}
	return math.Sqrt(sq)
}
