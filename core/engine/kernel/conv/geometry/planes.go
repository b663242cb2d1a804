package geometry

import "github.com/trainctl/trainctl/core/engine/kernel"

// PlaneCopy is a call of the copies of rows of planes of several images. All steps are bytes; Vectors are the whole
// ones of a row before its last, and Tail and Tail2 the lanes of the last. Odd is the distance of the odd
// elements' place. The kernel counts in Images. The layout is known to gen/conv/planes.go.
type PlaneCopy struct {
	Images, Rows, Vectors              int
	Src, Dst                           *float32
	Odd                                int
	SrcImage, SrcRow, DstImage, DstRow int
	Tail, Tail2                        kernel.Mask
	SrcPair, DstPair                   int
}

// paired sets the pairs that are not given.
func (c *PlaneCopy) paired() *PlaneCopy {
	if c.SrcPair == 0 {
		c.SrcPair = 2 * c.SrcRow
	}
	if c.DstPair == 0 {
		c.DstPair = 2 * c.DstRow
	}
	return c
}

// SetWidth is for rows of n elements in steps of some vectors of eight: two where Split and Join
// take pairs.
func (c *PlaneCopy) SetWidth(n, vectors int) {
	const eight = 8
	c.Vectors = (n - 1) / (eight * vectors)
	n -= c.Vectors * eight * vectors
	c.Tail, c.Tail2 = kernel.FirstOfEight(min(n, eight)), kernel.FirstOfEight(max(0, n-eight))
}

// Frame copies rows to a frame. It may write zeros behind a row.
func (c *PlaneCopy) Frame() { vecFramePlanes(c.paired()) }

// Cut copies rows out of a frame. It may read behind a row.
func (c *PlaneCopy) Cut() { vecCutPlanes(c.paired()) }

// Split copies the even elements of rows to a frame, and the odd ones to another. It may write
// zeros behind a row.
func (c *PlaneCopy) Split() { vecSplitPlanes(c.paired()) }

// Join is the way back. It may read behind a row.
func (c *PlaneCopy) Join() { vecJoinPlanes(c.paired()) }

// Evens copies the even elements of rows. It may write zeros behind a row.
func (c *PlaneCopy) Evens() { vecEvenPlanes(c.paired()) }

// Pick copies the elements at, at+stride and so on of rows of n from src to dst, which stand for Src and Dst.
func (c *PlaneCopy) Pick(src, dst []float32, at, n, stride int) {
	c.eachRow(src, dst, func(src, dst []float32) {
		src = src[:n]
		for i, j := at, 0; i < len(src); i, j = i+stride, j+1 {
			dst[j] = src[i]
		}
	})
}

// Put is the way back.
func (c *PlaneCopy) Put(src, dst []float32, at, n, stride int) {
	c.eachRow(src, dst, func(src, dst []float32) {
		dst = dst[:n]
		for i, j := at, 0; i < len(dst); i, j = i+stride, j+1 {
			dst[i] = src[j]
		}
	})
}

// eachRow calls f for each row of src, and where it goes in dst.
func (c *PlaneCopy) eachRow(src, dst []float32, f func(src, dst []float32)) {
	srcRow, dstRow := c.SrcRow/4, c.DstRow/4
	for image := range c.Images {
		src, dst := src[image*c.SrcImage/4:], dst[image*c.DstImage/4:]
		for row := range c.Rows {
			f(src[row*srcRow:], dst[row*dstRow:])
		}
	}
}
