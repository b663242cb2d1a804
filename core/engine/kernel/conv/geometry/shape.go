package geometry

import "fmt"

// Shape is the geometry of a two-dimensional convolution (cross-correlation, as
// in PyTorch's conv2d): N images of C×H×W, K filters of C/Groups×R×S. x is
// [N, C, H, W], w [K, C/Groups, R, S], bias [K], y [N, K, OutH, OutW].
// A zero dilation or group count means 1. Padding may be multiplied like any
// other zero: an infinite weight or gradient there gives NaN, as in PyTorch.
type Shape struct {
	N, C, H, W, K, R, S                              int
	StrideH, StrideW, PadH, PadW, DilH, DilW, Groups int

	// Batch is how many images there are in all where the N are a share of them, as threads have, and 0 where they are all.
	// Every share is computed by the algorithm that suits the batch.
	Batch int `json:",omitempty"`
}

// Images is the size of the batch.
func (p *Shape) Images() int { return max(p.N, p.Batch) }

// Share is the convolution of n of the images.
func (p Shape) Share(n int) Shape {
	p.N, p.Batch = n, p.Images()
	return p
}

// OutH is the height of the output.
func (p *Shape) OutH() int { return (p.H+2*p.PadH-p.DilationH()*(p.R-1)-1)/p.StrideH + 1 }

// OutW is the width of the output.
func (p *Shape) OutW() int { return (p.W+2*p.PadW-p.DilationW()*(p.S-1)-1)/p.StrideW + 1 }

// DilationH is the vertical distance of two taps; 1 where there is one tap.
func (p *Shape) DilationH() int { return dilation(p.DilH, p.R) }

// DilationW is the horizontal distance of two taps; 1 where there is one tap.
func (p *Shape) DilationW() int { return dilation(p.DilW, p.S) }

func dilation(given, taps int) int {
	if taps == 1 {
		return 1
	}
	return max(given, 1)
}

// GroupCount is the number of groups, at least 1.
func (p *Shape) GroupCount() int { return max(p.Groups, 1) }

// Depthwise reports whether each channel of x has a group of its own.
func (p *Shape) Depthwise() bool { return p.GroupCount() > 1 && p.C == p.GroupCount() }

// PatchSize is the number of inputs that one output depends on.
func (p *Shape) PatchSize() int { return p.C / p.GroupCount() * p.R * p.S }

// Elems is the elements of x and y.
func (p *Shape) Elems() int { return p.N * (p.C*p.H*p.W + p.K*p.OutH()*p.OutW()) }

// Validate says what is wrong with the geometry, if anything.
func (p *Shape) Validate() error {
	switch g := p.GroupCount(); {
	case min(p.N, p.C, p.H, p.W, p.K, p.R, p.S) < 1:
		return fmt.Errorf("convolution: sizes have to be positive: input [%d, %d, %d, %d], %d filters of %d×%d", p.N, p.C, p.H, p.W, p.K, p.R, p.S)
	case min(p.StrideH, p.StrideW) < 1:
		return fmt.Errorf("convolution: stride %d×%d has to be positive", p.StrideH, p.StrideW)
	case min(p.PadH, p.PadW, p.DilH, p.DilW, p.Groups) < 0:
		return fmt.Errorf("convolution: padding %d×%d, dilation %d×%d and groups %d must not be negative", p.PadH, p.PadW, p.DilH, p.DilW, p.Groups)
	case p.C%g != 0 || p.K%g != 0:
		return fmt.Errorf("convolution: %d input and %d output channels do not divide into %d groups", p.C, p.K, g)
	case p.H+2*p.PadH < p.DilationH()*(p.R-1)+1 || p.W+2*p.PadW < p.DilationW()*(p.S-1)+1:
		return fmt.Errorf("convolution: the %d×%d filter (dilation %d×%d) is larger than the padded %d×%d input",
			p.R, p.S, p.DilationH(), p.DilationW(), p.H+2*p.PadH, p.W+2*p.PadW)
	}
	return nil
}

// String is the geometry in one line, as PyTorch's arguments read.
func (p *Shape) String() string {
	s := fmt.Sprintf("%dx%dx%dx%d, %d of %dx%d/%d", p.N, p.C, p.H, p.W, p.K, p.R, p.S, p.StrideH)
	if p.StrideW != p.StrideH {
		s += fmt.Sprintf("x%d", p.StrideW)
	}
	if p.DilH > 1 || p.DilW > 1 {
		s += fmt.Sprintf(", dilation %dx%d", max(p.DilH, 1), max(p.DilW, 1))
	}
	if p.GroupCount() > 1 {
		s += fmt.Sprintf(", %d groups", p.GroupCount())
	}
	return s
}

// Direction is what of a convolution is computed.
type Direction uint8

// The three products of a training step.
const (
	ToOutput Direction = iota // Forward
	ToInput                   // GradInput
	ToWeight                  // GradWeight
)
