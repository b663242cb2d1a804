package digits

// sub is the number of steps in one pixel: positions are fixed point.
const sub = 256

type point struct{ x, y int }

func mid(a, b point) point { return point{(a.x + b.x) / 2, (a.y + b.y) / 2} }

// affine maps the glyph box (0..100, y down) to the canvas. Its entries are
// 1/1024 steps per unit.
type affine struct {
	xx, xy, yx, yy int
	at             point // where the middle of the box goes
}

// newAffine puts a box of about 20 pixels near the middle, as in MNIST,
// with random width, slant and rotation.
func newAffine(r *source) affine {
	const unit = 20 * sub * 1024 / 100
	percent := func(n int) int { return unit * n / 100 }
	lean, spin := r.around(turn), r.around(turn)
	return affine{
		xx: percent(80 + r.around(shrink)),
		yy: percent(95 + r.around(shrink)),
		xy: percent(lean - spin),
		yx: percent(spin),
		at: point{Size*sub/2 + r.around(drift), Size*sub/2 + r.around(drift)},
	}
}

func (a affine) apply(p point) point {
	x, y := p.x-50, p.y-50
	return point{a.at.x + (a.xx*x+a.xy*y)/1024, a.at.y + (a.yx*x+a.yy*y)/1024}
}

// pen is a round nib whose edge falls off over one to two pixels: full ink up
// to a squared distance of inner, none from outer.
type pen struct {
	reach        int // radius beyond which no ink falls
	step         int // between two stamps: a wide nib needs fewer
	inner, outer int
	slope        int // 255·2^16 / (outer-inner)
}

func newPen(r *source) pen {
	half := sub/2 + r.below(sub*3/2)
	soft := sub/2 + r.below(sub/2)
	in, out := max(half-soft, 0), half+soft
	return pen{reach: out, step: sub/2 + half/2, inner: in * in, outer: out * out, slope: 255 << 16 / (out*out - in*in)}
}

// stamp presses the nib down at c; ink never gets lighter.
func (n pen) stamp(canvas *[Pixels]byte, c point) {
	x0, x1 := max((c.x-n.reach)/sub, 0), min((c.x+n.reach)/sub, Size-1)
	y0, y1 := max((c.y-n.reach)/sub, 0), min((c.y+n.reach)/sub, Size-1)
	if x0 > x1 {
		return // beside the paper
	}
	for y := y0; y <= y1; y++ {
		dx, dy := x0*sub+sub/2-c.x, y*sub+sub/2-c.y
		row := canvas[y*Size+x0 : y*Size+x1+1]
		for i := range row {
			if d := dx*dx + dy*dy; d < n.outer {
				ink := byte((n.outer - max(d, n.inner)) * n.slope >> 16)
				row[i] = max(row[i], ink)
			}
			dx += sub
		}
	}
}

// traceSpline follows the uniform quadratic B-spline over the control points,
// clamped at both ends: it touches the middle of every inner edge, and a
// doubled point makes a corner.
func traceSpline(canvas *[Pixels]byte, p []point, nib pen) {
	from := p[0]
	for i := 1; i < len(p)-1; i++ {
		to := mid(p[i], p[i+1])
		if i == len(p)-2 {
			to = p[i+1]
		}
		traceArc(canvas, from, p[i], to, nib)
		from = to
	}
	if len(p) == 2 {
		traceArc(canvas, p[0], mid(p[0], p[1]), p[1], nib)
	}
}

// traceArc follows the quadratic Bézier curve a, b, c in steps short enough
// for the nib to leave no gaps.
func traceArc(canvas *[Pixels]byte, a, b, c point, nib pen) {
	length := span(a, b) + span(b, c)
	n := 1 + length/nib.step
	for i := range n + 1 {
		u, v, w := (n-i)*(n-i), 2*i*(n-i), i*i
		nib.stamp(canvas, point{(u*a.x + v*b.x + w*c.x) / (n * n), (u*a.y + v*b.y + w*c.y) / (n * n)})
	}
}

func span(a, b point) int { return max(abs(a.x-b.x), abs(a.y-b.y)) }

func abs(n int) int { return max(n, -n) }
