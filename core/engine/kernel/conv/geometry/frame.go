package geometry

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Frame is a group of channels with zeros around each plane, and room for a
// vector to read past the end. A plane is split by the phases of a stride: [phases of rows][phases of
// columns][rows][Width]. So the inputs of neighbouring outputs lie side by side.
type Frame struct {
	Channels, H, W int // of what is inside
	Width, Plane   int // of a row of a phase with its border, and the elements of all phases
	phase          int // elements
	top, left      int // place of the first element inside, before the split
	stepH, stepW   int // of the stride that splits it
}

func newFrame(channels, h, w, top, left int) Frame {
	return Frame{Channels: channels, H: h, W: w, top: top, left: left, stepH: 1, stepW: 1}
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

// Corner is the row and the column of the first element inside, before the split.
func (f *Frame) Corner() (row, column int) { return f.top, f.left }

// Sees reports whether any of the output rows [first, end), looking so many rows down, may see a row inside.
func (f *Frame) Sees(first, end, down int) bool {
	return down+(end-1)*f.stepH >= f.top && down+first*f.stepH < f.top+f.H
}

// Seeing is how many of the first n output rows, looking so many rows down, see rows inside.
func (f *Frame) Seeing(n, down int) int {
	first, end := kernel.CeilDiv(max(0, f.top-down), f.stepH), kernel.CeilDiv(max(0, f.top+f.H-down), f.stepH)
	return max(0, min(n, end)-first)
}

// Elems is the size of the frame, with what a vector may read past its end.
func (f *Frame) Elems() int { return f.Channels*f.Plane + kernel.Block }

// Fill copies an image's planes into a frame whose border is zero already.
func (f *Frame) Fill(src, dst []float32) {
	for i := range min(f.stepH, f.H) {
		to := f.At(f.top+i, f.left)
		c := PlaneCopy{
			Images: f.Channels, SrcImage: 4 * f.H * f.W, DstImage: 4 * f.Plane, Rows: kernel.CeilDiv(f.H-i, f.stepH),
			Src: &src[i*f.W], SrcRow: 4 * f.stepH * f.W, Dst: &dst[to], DstRow: 4 * f.Width,
		}
		switch {
		case f.stepW > 2:
			for j := range min(f.stepW, f.W) {
				c.Pick(src[i*f.W:], dst[f.At(f.top+i, f.left+j):], j, f.W, f.stepW)
			}
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

// InputFrame holds x of one group, with its padding.
func (p *Shape) InputFrame() Frame {
	f := newFrame(p.C/p.GroupCount(), p.H, p.W, p.PadH, p.PadW)
	f.stepH, f.stepW = p.StrideH, p.StrideW
	return f.sized(p.H+2*p.PadH, p.W+2*p.PadW)
}

// PaddedFrame holds x of all groups, with its padding, and is not split whatever the stride.
func (p *Shape) PaddedFrame() Frame {
	return newFrame(p.C, p.H, p.W, p.PadH, p.PadW).sized(p.H+2*p.PadH, p.W+2*p.PadW)
}

// GradFrame holds dy of one group, with the zeros that the flipped filters of every phase of dx meet.
func (p *Shape) GradFrame() Frame {
	top, rows := Lead(p.H, p.OutH(), p.StrideH, p.PadH, p.R, p.DilationH())
	left, columns := Lead(p.W, p.OutW(), p.StrideW, p.PadW, p.S, p.DilationW())
	f := newFrame(p.K/p.GroupCount(), p.OutH(), p.OutW(), top, left)
	return f.sized(max(rows, top+p.OutH()), max(columns, left+p.OutW()))
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
