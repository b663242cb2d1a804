package geometry

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Frame is a group of channels with zeros around each plane, and room for a
// vector to read past the end.
type Frame struct {
	Channels, H, W int // of what is inside
	First          int // place of the first element inside
	Width, Plane   int // with the border
}

func newFrame(channels, h, w, padH, padW int) Frame {
	width := w + 2*padW
	return Frame{Channels: channels, H: h, W: w, First: padH*width + padW, Width: width, Plane: (h + 2*padH) * width}
}

// Elems is the size of the frame, with what a vector may read past its end.
func (f Frame) Elems() int { return f.Channels*f.Plane + kernel.Block }

// Fill copies an image's planes into a frame whose border is zero already.
func (f Frame) Fill(src, dst []float32) {
	for c := range f.Channels {
		for i := range f.H {
			copy(dst[f.First+c*f.Plane+i*f.Width:][:f.W], src[(c*f.H+i)*f.W:])
		}
	}
}

// InputFrame holds x of one group, with its padding.
func (p *Shape) InputFrame() Frame { return newFrame(p.C/p.GroupCount(), p.H, p.W, p.PadH, p.PadW) }

// GradFrame holds dy of one group, with the zeros that the flipped filters meet.
func (p *Shape) GradFrame() Frame {
	return newFrame(p.K/p.GroupCount(), p.OutH(), p.OutW(), p.DilationH()*(p.R-1)-p.PadH, p.DilationW()*(p.S-1)-p.PadW)
}

// FitsFrame reports whether vector kernels can compute the convolution from frames: its stride is
// 1, no frame is cut off, and offsets into one fit an int32.
func (p *Shape) FitsFrame() bool {
	return kernel.Current() != kernel.Generic && p.StrideH == 1 && p.StrideW == 1 &&
		max(p.InputFrame().Elems(), p.GradFrame().Elems()) < math.MaxInt32/4 &&
		p.PadH <= p.DilationH()*(p.R-1) && p.PadW <= p.DilationW()*(p.S-1)
}
