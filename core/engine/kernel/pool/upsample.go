package pool

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// Upsampling enlarges planes of H×W by a whole factor. Several goroutines may use it.
type Upsampling[T kernel.Float] struct {
	h, w, factor int
	windows      Shape   // of the copies of each element
	rows, cols   taps[T] // of bilinear ones
	bilinear     bool
	vectors      *bilinear // of bilinear ones, if vector kernels fit
}

// taps say of which inputs each output along one axis is made: 1−share of the one
// at low, and share of the one at high.
type taps[T kernel.Float] struct {
	low, high   []int
	share, rest []T
	seen        []seen[T] // of each input
}

// seen is in which outputs an input is, from the first on, and with what weights.
type seen[T kernel.Float] struct {
	first   int
	weights []T
}

// NewUpsampling is for planes of h×w; bilinear ones take pixels' centres, as torch.nn.Upsample does with align_corners=False.
func NewUpsampling[T kernel.Float](h, w, factor int, bilinear bool) *Upsampling[T] {
	u := &Upsampling[T]{h: h, w: w, factor: factor, bilinear: bilinear}
	if bilinear {
		u.rows, u.cols = newTaps[T](h, factor), newTaps[T](w, factor)
		if v, ok := any(u).(*Upsampling[float32]); ok {
			v.vectors = newBilinear(h, w, factor, &v.rows, &v.cols)
		}
		return u
	}
	u.windows = Shape{N: 1, C: 1, H: h * factor, W: w * factor, R: factor, S: factor, StrideH: factor, StrideW: factor}
	if s := newSeparate(&u.windows); s != nil {
		s.copies()
		u.windows.separate = s
	}
	return u
}

func newTaps[T kernel.Float](n, factor int) taps[T] {
	t := taps[T]{seen: make([]seen[T], n)}
	for i := range n * factor {
		at := max(0, (float64(i)+0.5)/float64(factor)-0.5)
		low := int(at)
		high, share := min(low+1, n-1), T(at-float64(low))
		t.low, t.high, t.share, t.rest = append(t.low, low), append(t.high, high), append(t.share, share), append(t.rest, 1-share)
		t.seen[low].add(i, 1-share)
		if share > 0 {
			t.seen[high].add(i, share)
		}
	}
	return t
}

// add adds a weight in output i, which is the last so far or follows it.
func (s *seen[T]) add(i int, weight T) {
	switch n := len(s.weights); {
	case n == 0:
		s.first, s.weights = i, []T{weight}
	case s.first+n == i:
		s.weights = append(s.weights, weight)
	default:
		s.weights[n-1] += weight
	}
}

// Scratch is how many elements Enlarge and Gradient need.
func (u *Upsampling[T]) Scratch() int {
	if !u.bilinear {
		return 0
	}
	if u.vectors != nil {
		return max(2*u.w*u.factor, u.vectors.scratch())
	}
	return 2 * u.w * u.factor
}

// Enlarge enlarges planes of x to y.
func (u *Upsampling[T]) Enlarge(planes int, x, y, scratch []T) {
	in, out := u.h*u.w, u.h*u.w*u.factor*u.factor
	if !u.bilinear {
		u.repeat(planes, x, y)
		return
	}
	first, height := 0, u.h*u.factor
	if u.vectors != nil {
		first = u.vectors.enlarge(planes, kernel.As32(x), kernel.As32(y))
	}
	for i := first / height; i < planes; i++ {
		u.interpolate(max(0, first-i*height), x[i*in:][:in], y[i*out:][:out], scratch)
	}
}

// repeat copies each element to a square.
func (u *Upsampling[T]) repeat(planes int, x, y []T) {
	p, first := &u.windows, 0
	if kernel.Is32[T]() && p.separate != nil {
		first = p.separate.meanGrad(planes, kernel.As32(x), kernel.As32(y))
	}
	p.eachRow(first, planes, func(to, from, row int) {
		lines := y[to:][row*p.R*p.W:][:p.R*p.W]
		for j := range lines[:p.W] {
			lines[j] = x[from+j/p.S]
		}
		for r := 1; r < p.R; r++ {
			copy(lines[r*p.W:], lines[:p.W])
		}
	})
}

// interpolate writes rows of an enlarged plane from first on. It enlarges rows, of which scratch keeps two, and mixes them.
func (u *Upsampling[T]) interpolate(first int, x, y, scratch []T) {
	width := u.w * u.factor
	kept, next := [2]int{-1, -1}, 0
	row := func(i int) []T {
		for k, have := range kept {
			if have == i {
				return scratch[k*width:][:width]
			}
		}
		to := scratch[next*width:][:width]
		kept[next], next = i, 1-next
		u.cols.mix(x[i*u.w:][:u.w], to)
		return to
	}
	for i := first; i < len(u.rows.low); i++ {
		to := y[i*width:][:width]
		copy(to, row(u.rows.low[i]))
		elementwise.Scale(to, u.rows.rest[i])
		elementwise.Axpy(to, u.rows.share[i], row(u.rows.high[i]))
	}
}

// mix enlarges a row.
func (t *taps[T]) mix(x, y []T) {
	y = y[:len(t.low)]
	high, share, rest := t.high[:len(y)], t.share[:len(y)], t.rest[:len(y)]
	for j, low := range t.low {
		y[j] = T(rest[j]*x[low]) + T(share[j]*x[high[j]])
	}
}

// Gradient overwrites dx with the gradient of what was enlarged.
func (u *Upsampling[T]) Gradient(planes int, dy, dx, scratch []T) {
	if !u.bilinear {
		u.sums(planes, dy, dx)
		return
	}
	width, first := u.w*u.factor, 0
	if u.vectors != nil {
		first = u.vectors.add(planes, kernel.As32(dy), kernel.As32(dx), kernel.As32(scratch))
	}
	for i := first; i < planes*u.h; i++ {
		plane, row := i/u.h, &u.rows.seen[i%u.h]
		sum := scratch[:width]
		for k, weight := range row.weights {
			from := dy[(plane*u.h*u.factor+row.first+k)*width:][:width]
			if k == 0 {
				copy(sum, from)
				elementwise.Scale(sum, weight)
			} else {
				elementwise.Axpy(sum, weight, from)
			}
		}
		u.cols.gather(sum, dx[i*u.w:][:u.w])
	}
}

// gather adds up what is in outputs of each input.
func (t *taps[T]) gather(dy, dx []T) {
	for i := range dx {
		s := &t.seen[i]
		var sum T
		for k, g := range dy[s.first:][:len(s.weights)] {
			sum += T(g * s.weights[k])
		}
		dx[i] = sum
	}
}

// sums adds up the squares of repeated elements.
func (u *Upsampling[T]) sums(planes int, dy, dx []T) {
	p, first := &u.windows, 0
	if kernel.Is32[T]() && p.apart() {
		first = p.separate.mean(planes, kernel.As32(dy), kernel.As32(dx))
	}
	p.eachRow(first, planes, func(in, out, row int) {
		p.eachWindow(row, func(o, h0, h1, w0, w1, _ int) { dx[out+o] = windowSum(dy[in:], p.W, h0, h1, w0, w1) })
	})
}
