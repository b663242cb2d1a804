package geometry

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Frame is a group of channels with zeros around each plane, and room for a
// vector to read past the end. A plane is split by the phases of a stride: [phases of rows][phases of
// columns][rows][Width]. So the inputs of neighbouring outputs lie side by side.
type Frame struct {
	Channels, H, W       int // of what is inside
	Width, Plane         int // of a row of a phase with its border, and the elements of all phases
	phase                int // elements
	top, left            int // place of the first element inside, before the split
	stepH, stepW         int // of the stride that splits it
	spreadRows, spreadBy int // distance of the elements inside
}

func newFrame(channels, h, w, top, left int) Frame {
	return Frame{Channels: channels, H: h, W: w, top: top, left: left, stepH: 1, stepW: 1, spreadRows: 1, spreadBy: 1}
}

// sized sets the size of a frame of rows×columns before the split.
func (f Frame) sized(rows, columns int) Frame {
	f.Width = kernel.CeilDiv(columns, f.stepW)
	f.phase = kernel.CeilDiv(rows, f.stepH) * f.Width
	if f.stepH*f.stepW > 1 {
		f.phase += kernel.Block // what copies write behind the last row
	}
	f.Plane = f.stepH * f.stepW * f.phase
	return f
}

// At is where an element of the first plane with its border lies.
func (f *Frame) At(row, col int) int {
	return (row%f.stepH*f.stepW+col%f.stepW)*f.phase + row/f.stepH*f.Width + col/f.stepW
}

// First is where the first element inside lies.
func (f *Frame) First() int { return f.At(f.top, f.left) }

// Elems is the size of the frame, with what a vector may read past its end.
func (f *Frame) Elems() int { return f.Channels*f.Plane + kernel.Block }

// Fill copies an image's planes into a frame whose border is zero already.
func (f *Frame) Fill(src, dst []float32) {
	for i := range min(f.stepH, f.H) {
		to := f.At(f.top+i, f.left)
		c := PlaneCopy{
			Images: f.Channels, SrcImage: 4 * f.H * f.W, DstImage: 4 * f.Plane, Rows: kernel.CeilDiv(f.H-i, f.stepH),
			Src: &src[i*f.W], SrcRow: 4 * f.stepH * f.W, Dst: &dst[to], DstRow: 4 * f.spreadRows * f.Width,
		}
		switch {
		case f.spreadBy > 1 || f.stepW > 2:
			f.fillApart(&c, i, src, dst)
		case f.stepW == 2:
			c.Odd = 4 * (f.At(f.top+i, f.left+1) - to)
			c.SetWidth(f.W, 2)
			c.Split()
		default:
			c.SetWidth(f.W, 1)
			c.Frame()
		}
	}
}

// fillApart is Fill for the rows i, i+stepH and so on, element by element.
func (f *Frame) fillApart(c *PlaneCopy, i int, src, dst []float32) {
	for ch := range f.Channels {
		for r := range c.Rows {
			from, row := src[(ch*f.H+i+r*f.stepH)*f.W:][:f.W], ch*f.Plane+f.At(f.top+(i+r*f.stepH)*f.spreadRows, 0)
			if f.stepW == 1 {
				SpreadPhase(from, dst[row+f.left:], f.spreadBy)
				continue
			}
			phase, at := f.left%f.stepW, f.left/f.stepW
			for _, v := range from {
				dst[row+phase*f.phase+at] = v
				if phase++; phase == f.stepW {
					phase, at = 0, at+1
				}
			}
		}
	}
}

// InputFrame holds x of one group, with its padding.
func (p *Shape) InputFrame() Frame {
	f := newFrame(p.C/p.GroupCount(), p.H, p.W, p.PadH, p.PadW)
	f.stepH, f.stepW = p.StrideH, p.StrideW
	return f.sized(p.H+2*p.PadH, p.W+2*p.PadW)
}

// GradFrame holds dy of one group, as far apart as the stride says, with the zeros that the flipped filters meet.
func (p *Shape) GradFrame() Frame {
	reachH, reachW := p.DilationH()*(p.R-1), p.DilationW()*(p.S-1)
	f := newFrame(p.K/p.GroupCount(), p.OutH(), p.OutW(), reachH-p.PadH, reachW-p.PadW)
	f.spreadRows, f.spreadBy = p.StrideH, p.StrideW
	return f.sized(p.H+reachH, p.W+reachW)
}

// FitsFrame reports whether vector kernels can compute the convolution from frames: no frame is cut off,
// and offsets into one fit an int32.
func (p *Shape) FitsFrame() bool {
	in, grad := p.InputFrame(), p.GradFrame()
	return kernel.Current() != kernel.Generic && max(in.Elems(), grad.Elems()) < math.MaxInt32/4 &&
		p.PadH <= p.DilationH()*(p.R-1) && p.PadW <= p.DilationW()*(p.S-1)
}

// Stride1 reports whether neighbouring outputs see neighbouring inputs.
func (p *Shape) Stride1() bool { return p.StrideH == 1 && p.StrideW == 1 }
