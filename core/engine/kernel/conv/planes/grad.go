package planes

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// planeGrad is the frame of dy, from which every phase of dx is a convolution with stride 1.
type planeGrad struct {
	planeFrame
	p *geometry.Shape
}

func newPlaneGrad(p *geometry.Shape) planeGrad {
	top, rows := leadOf(p.H, p.OutH(), p.StrideH, p.PadH, p.R, p.DilationH())
	left, columns := leadOf(p.W, p.OutW(), p.StrideW, p.PadW, p.S, p.DilationW())
	f := newPlaneFrame(p.N, p.K/p.C, p.OutH(), p.OutW(), 1, 1, top, left, rows, columns, kernel.CeilDiv(p.W, p.StrideW))
	return planeGrad{f, p}
}

// leadOf is how far any phase looks back before dy, and how many elements from there on are looked at.
func leadOf(in, out, stride, pad, taps, dil int) (lead, elems int) {
	end := 0
	for a := range stride {
		if h := geometry.NewPhase(a, in, out, stride, pad, taps, dil); h.N > 0 {
			lead = max(lead, -h.Axis.Least())
			end = max(end, kernel.CeilDiv(in, stride)+h.Axis.First)
		}
	}
	return lead, end + lead
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
			for a := range p.StrideH {
				if h := &phases[a]; h.out.h > 0 {
					g.rows(&h.out, c, images, taps[a*p.StrideW:][:p.StrideW], frames, room, dx[(n*p.C+c)*p.H*p.W+h.first*p.W:])
				}
			}
		}
	}
}

// rows computes one phase of the rows of dx, of channel c of some images.
func (g *planeGrad) rows(out *planeOut, c, images int, phases []gradTaps, frames, room, dx []float32) {
	p := g.p
	if p.StrideW == 1 {
		t := phases[0].of(c)
		out.finish(&t, images, phases[0].every, p.C*p.H*p.W, p.StrideH*p.W, frames, dx, room)
		return
	}
	for a := range phases {
		t := phases[a].of(c)
		out.run(&t, images, phases[a].every, out.image(), out.line(), frames, room[phases[a].first*out.elems():])
	}
	g.join(out, images, room, dx)
}

// join writes the phases of rows of dx.
func (g *planeGrad) join(o *planeOut, images int, room, dx []float32) {
	p, size := g.p, o.elems()
	between, line := p.C*p.H*p.W, p.StrideH*p.W
	if p.StrideW == 2 {
		c := geometry.PlaneCopy{Images: images, Rows: o.h, Src: &room[0], SrcImage: 4 * o.image(), SrcRow: 4 * o.line(), Dst: &dx[0], DstImage: 4 * between, DstRow: 4 * line, Odd: 4 * size}
		c.SetWidth(p.W, 2)
		c.Join()
		return
	}
	for i := range images {
		for r := range o.h {
			to := dx[i*between+r*line:][:p.W]
			for j := range to {
				to[j] = room[j%p.StrideW*size+i*o.image()+r*o.line()+j/p.StrideW]
			}
		}
	}
}
