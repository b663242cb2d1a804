package devicetest

import (
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	register(op.Conv2D, convolutions)
}

// geometry is a convolution of n images of c×h×w with k filters of rs[0]×rs[1].
type geometry struct {
	n, c, h, w, k int
	rs            [2]int
	signal        bool // of one row, which has no dimension of its own
	op.Conv2DAttr
}

// dims is the shape of images or filters.
func (g geometry) dims(n, c, h, w int) []int {
	if g.signal {
		return []int{n, c, w}
	}
	return []int{n, c, h, w}
}

func geom(n, c, h, w, k, r, s int) geometry {
	one := [2]int{1, 1}
	return geometry{n, c, h, w, k, [2]int{r, s}, false, op.Conv2DAttr{Stride: one, Dilation: one, Groups: 1}}
}

func signals(n, c, l, k, s int) geometry {
	g := geom(n, c, 1, l, k, 1, s)
	g.signal = true
	return g
}

func (g geometry) pad(h, w int) geometry    { g.Padding = [2]int{h, w}; return g }
func (g geometry) stride(h, w int) geometry { g.Stride = [2]int{h, w}; return g }
func (g geometry) dilate(h, w int) geometry { g.Dilation = [2]int{h, w}; return g }
func (g geometry) groups(n int) geometry    { g.Groups = n; return g }

func (g geometry) out(i, in int) int {
	return (in+2*g.Padding[i]-g.Dilation[i]*(g.rs[i]-1)-1)/g.Stride[i] + 1
}

func (g geometry) String() string {
	return fmt.Sprintf("%s_k%d_r%s_s%s_p%s_d%s_g%d", shapeName(g.n, g.c, g.h, g.w), g.k, shapeName(g.rs[:]...),
		shapeName(g.Stride[:]...), shapeName(g.Padding[:]...), shapeName(g.Dilation[:]...), g.Groups)
}

// taps calls f for every product of a convolution: the places of the pixel, the
// weight and the result.
func (g geometry) taps(f func(x, w, y int)) {
	oh, ow := g.out(0, g.h), g.out(1, g.w)
	cg, kg := g.c/g.Groups, g.k/g.Groups
	for n := range g.n {
		for k := range g.k {
			for i := range oh * ow {
				y := (n*g.k+k)*oh*ow + i
				for tap := range cg * g.rs[0] * g.rs[1] {
					c, r, s := tap/(g.rs[0]*g.rs[1]), tap/g.rs[1]%g.rs[0], tap%g.rs[1]
					h := i/ow*g.Stride[0] - g.Padding[0] + r*g.Dilation[0]
					w := i%ow*g.Stride[1] - g.Padding[1] + s*g.Dilation[1]
					if h < 0 || h >= g.h || w < 0 || w >= g.w {
						continue
					}
					f(((n*g.c+k/kg*cg+c)*g.h+h)*g.w+w, k*cg*g.rs[0]*g.rs[1]+tap, y)
				}
			}
		}
	}
}

var geometries = []geometry{
	geom(1, 1, 1, 1, 1, 1, 1),
	geom(2, 1, 28, 28, 3, 5, 5).pad(2, 2),
	geom(3, 3, 7, 5, 4, 3, 3).pad(1, 1),
	geom(2, 5, 9, 11, 7, 3, 3).pad(1, 1).stride(2, 2),
	geom(2, 8, 6, 6, 17, 1, 1),
	geom(1, 4, 10, 9, 6, 1, 1).stride(2, 2),
	geom(2, 3, 17, 15, 5, 7, 7).pad(3, 3).stride(2, 2),
	geom(2, 16, 12, 10, 32, 3, 3).pad(1, 1).stride(2, 2), // channels in multiples of 16, as Winograd needs them
	geom(2, 16, 8, 8, 32, 1, 1).stride(2, 2),
	geom(1, 4, 9, 8, 6, 3, 2).pad(2, 0).dilate(2, 3).stride(1, 2),
	geom(2, 6, 5, 7, 4, 3, 3).pad(1, 1).groups(2),
	geom(2, 4, 6, 6, 4, 3, 3).pad(1, 1).groups(4),
	signals(2, 5, 19, 7, 4).pad(0, 1).dilate(1, 2),
	signals(3, 16, 30, 16, 3).pad(0, 1).stride(1, 2),
}

// products are sums of products, for which a device may choose another
// algorithm. Winograd convolution trades multiplications for rounding
// errors an order larger in float32 (Lavin and Gray, 2016).
func products(n int, terms int, minimal bool) want {
	w := newWant(n)
	w.terms, w.tf32 = float64(terms), true
	if minimal {
		w.slack = 16
	}
	return w
}

func convolutions(r *rig) {
	for _, g := range geometries {
		r.each(g.String(), func(r *rig) { convolution(r, g) })
	}
}

func convolution(r *rig, g geometry) {
	oh, ow := g.out(0, g.h), g.out(1, g.w)
	shape := g.dims(g.k, g.c/g.Groups, g.rs[0], g.rs[1])
	x, w, bias, dy := r.normal(g.dims(g.n, g.c, g.h, g.w)...), r.normal(shape...), r.normal(g.k), r.normal(g.dims(g.n, g.k, oh, ow)...)
	minimal := g.rs == [2]int{3, 3}
	y := products(g.n*g.k*oh*ow, g.c/g.Groups*g.rs[0]*g.rs[1], minimal)
	dx := products(len(x.v), g.k/g.Groups*g.rs[0]*g.rs[1], minimal)
	dw := products(len(w.v), g.n*oh*ow, minimal)
	g.taps(func(i, j, o int) {
		y.add(o, x.v[i]*w.v[j])
		dx.add(i, dy.v[o]*w.v[j])
		dw.add(j, x.v[i]*dy.v[o])
	})
	out := r.output(g.dims(g.n, g.k, oh, ow)...)
	r.do(op.Conv2D, g.Conv2DAttr, []*arg{x, w, nil}, []*arg{out})
	r.check("y without bias", out, y)
	y.stored = slices.Clone(y.v)
	db := products(g.k, g.n*oh*ow, false)
	for o, v := range dy.v {
		k := o / (oh * ow) % g.k
		y.add(o, bias.v[k])
		db.add(k, v)
	}
	r.do(op.Conv2D, g.Conv2DAttr, []*arg{x, w, bias}, []*arg{out})
	r.check("y", out, y)
	gx := r.output(g.dims(g.n, g.c, g.h, g.w)...)
	r.do(op.Conv2DGradInput, g.Conv2DAttr, []*arg{dy, w}, []*arg{gx})
	r.check("dx", gx, dx)
	gw, gb := r.gradient(r.d, shape...), r.gradient(r.d, g.k)
	r.gradients(op.Conv2DGradWeight, g.Conv2DAttr, []*arg{x, dy}, []*arg{gw}, wanted{"dw", gw, dw})
	r.gradients(op.Conv2DGradBias, g.Conv2DAttr, []*arg{dy}, []*arg{gb}, wanted{"dbias", gb, db})
}
