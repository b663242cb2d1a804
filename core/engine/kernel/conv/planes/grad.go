package planes

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/lines"
)

// planeGrad is the frame of dy, from which every phase of dx is a convolution with stride 1.
type planeGrad struct {
	planeFrame
	p       *geometry.Shape
	tallest planeOut // how the phase of most rows is computed; all phases have its size in room
}

func newPlaneGrad(p *geometry.Shape) planeGrad {
	top, rows := geometry.Lead(p.H, p.OutH(), p.StrideH, p.PadH, p.R, p.DilationH())
	left, columns := geometry.Lead(p.W, p.OutW(), p.StrideW, p.PadW, p.S, p.DilationW())
	f := newPlaneFrame(p.N, planeElems*p.C/p.K, p.OutH(), p.OutW(), 1, 1, top, left, rows, columns, kernel.CeilDiv(p.W, p.StrideW))
	return planeGrad{f, p, f.out(kernel.CeilDiv(p.H, p.StrideH), kernel.CeilDiv(p.W, p.StrideW))}
}

// rowPhase and columnPhase are the phases of dx.
func (g *planeGrad) rowPhase(a int) geometry.Phase {
	return geometry.NewPhase(a, g.p.H, g.p.OutH(), g.p.StrideH, g.p.PadH, g.p.R, g.p.DilationH())
}

func (g *planeGrad) columnPhase(a int) geometry.Phase {
	return geometry.NewPhase(a, g.p.W, g.p.OutW(), g.p.StrideW, g.p.PadW, g.p.S, g.p.DilationW())
}

// out is how a phase of h rows is computed. All have as many columns, if the last counts or not.
func (g *planeGrad) out(h int) planeOut {
	return g.planeFrame.out(h, kernel.CeilDiv(g.p.W, g.p.StrideW))
}

// gradPhase is a phase of the rows of dx: the first, and how they are computed.
type gradPhase struct {
	first int
	out   planeOut
}

// gradTaps is the taps that reach a phase of rows and of columns, whose first is given, and their
// weights for every channel.
type gradTaps struct {
	tapTable
	first  int
	packed []float32
}

// of is a tile of channel c.
func (t *gradTaps) of(c int) (tile planeTile) {
	t.set(&tile)
	if n := len(t.index); n > 0 {
		tile.weights = &t.packed[c*n]
	}
	return tile
}

// taps lists the taps of a phase and packs their weights.
func (g *planeGrad) taps(h, v *geometry.Phase, w, scratch []float32) (t gradTaps, rest []float32) {
	p, multiplier := g.p, g.p.K/g.p.C
	t.first = v.Pixel
	if t.every = 1; h.N == 0 || v.N == 0 {
		return t, scratch
	}
	t.tapTable, rest = newTable(multiplier*h.N*v.N, scratch)
	if h.N > 1 {
		t.every = -h.Axis.Step
	}
	last := h.N - 1 // the tap that looks back furthest
	row, tap := h.Axis.First+last*h.Axis.Step+g.top, h.FirstTap+last*h.EveryTap
	for size := columnTaps; size > 0; size-- {
		for i := range multiplier * v.N {
			k, s := i/v.N, i%v.N
			at := k*g.elems() + row*g.width + v.Axis.First + s*v.Axis.Step + g.left
			t.add(size, h.N, at, t.every*g.width, (k*p.R+tap)*p.S+v.FirstTap+s*v.EveryTap, -h.EveryTap*p.S)
		}
	}
	t.packed, rest = rest[:p.C*len(t.index)], rest[p.C*len(t.index):]
	t.pack(p.C, multiplier*p.R*p.S, w, t.packed)
	return t, rest
}

// GradInput overwrites dx with the gradient of the input.
func GradInput(p *geometry.Shape, dy, w, dx, scratch []float32) {
	if reachesAcross(p) {
		a := newAcross(p, scratch)
		a.gradInput(dy, w, dx)
		return
	}
	if s, ok := thirdsOf(p, geometry.ToInput); ok {
		s.GradInput(dy, w, dx, scratch)
		return
	}
	if f, ok := foursOf(p); ok {
		f.GradInput(dy, w, dx)
		return
	}
	if l, ok := lines.Of(p); ok {
		l.GradInput(dy, w, dx, scratch)
		return
	}
	if takesSmall(p, geometry.ToInput) {
		smallGradInput(p, dy, w, dx, scratch)
		return
	}
	if takesWide(p, geometry.ToInput) {
		wideGradInput(p, dy, w, dx, scratch)
		return
	}
	if takesWideStrided(p, geometry.ToInput) {
		wideStridedGradInput(p, dy, w, dx, scratch)
		return
	}
	if takesTiles(p, geometry.ToInput) {
		tilesGradInput(p, dy, w, dx, scratch)
		return
	}
	if slides(p, geometry.ToInput) {
		slideGradInput(p, dy, w, dx, scratch)
		return
	}
	if isStrided(p, geometry.ToInput) {
		s, _ := newStrided(p, scratch)
		s.gradInput(dy, w, dx)
		return
	}
	framedGradInput(p, dy, w, dx, scratch)
}

// framedGradInput is GradInput from planes in frames.
func framedGradInput(p *geometry.Shape, dy, w, dx, scratch []float32) {
	g, multiplier, plane := newPlaneGrad(p), p.K/p.C, p.OutH()*p.OutW()
	var phases [maxStride]gradPhase
	var taps [maxStride * maxStride]gradTaps
	for a := range p.StrideH {
		h := g.rowPhase(a)
		phases[a] = gradPhase{h.Pixel, g.out(h.Pixels)}
		for b := range p.StrideW {
			v := g.columnPhase(b)
			taps[a*p.StrideW+b], scratch = g.taps(&h, &v, w, scratch)
		}
	}
	frames, room := scratch[:multiplier*g.elems()], scratch[multiplier*g.elems():]
	clear(frames)
	g.prepare(p.K*plane, p.OutW())
	for n := 0; n < p.N; n += g.images {
		images := min(g.images, p.N-n)
		for c := range p.C {
			for k := range multiplier {
				g.fill(images, dy[(n*p.K+c*multiplier+k)*plane:], frames[k*g.elems():])
			}
			to := dx[(n*p.C+c)*p.H*p.W:]
			for a := range p.StrideH {
				if h := &phases[a]; h.out.h > 0 {
					g.rows(h, c, images, taps[a*p.StrideW:][:p.StrideW], frames, room, to)
				}
			}
			if p.StrideW > 1 {
				g.join(images, room, to)
			}
		}
	}
}

// rows computes one phase of the rows of dx, of channel c of some images: in place, or to room, as [phases of
// rows][phases of columns], if its columns are to be joined.
func (g *planeGrad) rows(h *gradPhase, c, images int, phases []gradTaps, frames, room, dx []float32) {
	p := g.p
	if p.StrideW == 1 {
		t := phases[0].of(c)
		h.out.finish(&t, images, phases[0].every, p.C*p.H*p.W, p.StrideH*p.W, frames, dx[h.first*p.W:], room)
		return
	}
	o := &g.tallest
	image, line, size := o.image(), o.line(), o.elems()
	for a := range phases {
		t := phases[a].of(c)
		h.out.run(&t, images, phases[a].every, image, line, frames, room[(h.first*p.StrideW+phases[a].first)*size:])
	}
}

// join writes dx from its phases in room, in the order of its rows.
func (g *planeGrad) join(images int, room, dx []float32) {
	p, o := g.p, &g.tallest
	size, passes, pairs := o.elems(), p.StrideH, p.StrideH == 2 && p.StrideW == 2
	if pairs {
		passes = 1
	}
	for i := range min(passes, p.H) {
		c := geometry.PlaneCopy{
			Images: images, Rows: kernel.CeilDiv(p.H-i, passes), Src: &room[i*p.StrideW*size], SrcImage: 4 * o.image(), SrcRow: 4 * o.line(), Odd: 4 * size,
			Dst: &dx[i*p.W], DstImage: 4 * p.C * p.H * p.W, DstRow: 4 * passes * p.W,
		}
		if pairs {
			c.SrcRow, c.SrcPair = 4*2*size, 4*o.line()
		}
		if p.StrideW == 2 {
			c.SetWidth(p.W, 2)
			c.Join()
			continue
		}
		for j := range min(p.StrideW, p.W) {
			c.Put(room[(i*p.StrideW+j)*size:], dx[i*p.W:], j, p.W, p.StrideW)
		}
	}
}
