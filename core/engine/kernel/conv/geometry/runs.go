package geometry

// RunCopy copies runs of neighbouring elements, which a nest of four loops visits in src and in dst: the runs of a row, the rows of a band, the
// bands of an image, and images. The kernel counts in Images. The layout is known to gen/conv/runs.go.
type RunCopy struct {
	Images, Bands, Rows, Runs int // how many of each, at least one
	Src, Dst                  *float32
	SrcSteps, DstSteps        RunSteps
	last, vectors             int // bytes to the last move of a run, and the moves before it of a long one
	bandsLeft                 int // the kernel's own
}

// RunSteps are the distances, in elements, from an image, band, row or run to the next.
type RunSteps struct{ Image, Band, Row, Run int }

// inBytes makes steps those that the kernel adds: bytes from the end of the inner loop on.
func (s *RunSteps) inBytes(c *RunCopy) {
	s.Image -= c.Bands * s.Band
	s.Band -= c.Rows * s.Row
	s.Row -= c.Runs * s.Run
	for _, n := range []*int{&s.Image, &s.Band, &s.Row, &s.Run} {
		*n *= 4
	}
}

// LeastRun is how many elements a run has at least.
const LeastRun = 2

// Copy copies runs of n elements, at least LeastRun, and touches nothing else. c is used up.
func (c *RunCopy) Copy(n int) {
	c.SrcSteps.inBytes(c)
	c.DstSteps.inBytes(c)
	switch {
	case n == 2:
		vecCopyRunsOf2(c)
	case n < 4:
		c.last = 4 * (n - 2)
		vecCopyRunsFrom2(c)
	case n == 4:
		vecCopyRunsOf4(c)
	case n < 8:
		c.last = 4 * (n - 4)
		vecCopyRunsFrom4(c)
	case n == 8:
		vecCopyRunsOf8(c)
	case n <= 16:
		c.last = 4 * (n - 8)
		vecCopyRunsFrom8(c)
	default:
		c.last, c.vectors = 4*(n-8), (n-1)/8
		vecCopyLongRuns(c)
	}
}

// Moves is how many moves a run of n elements takes.
func Moves(n int) int {
	switch {
	case n == 2 || n == 4 || n == 8:
		return 1
	case n <= 16:
		return 2
	}
	return (n + 7) / 8
}

// Reversed is the copy from where c copies to, back to where it copies from.
func (c RunCopy) Reversed() RunCopy {
	c.Src, c.Dst, c.SrcSteps, c.DstSteps = c.Dst, c.Src, c.DstSteps, c.SrcSteps
	return c
}

// SwapOuter exchanges the two outer loops: bands, and images around them.
func (c *RunCopy) SwapOuter() {
	c.Images, c.Bands = c.Bands, c.Images
	for _, s := range []*RunSteps{&c.SrcSteps, &c.DstSteps} {
		s.Image, s.Band = s.Band, s.Image
	}
}

// SwapInner exchanges the two inner loops: runs, and rows around them. It takes fewer jumps for the longer one to be inside.
func (c *RunCopy) SwapInner() {
	c.Rows, c.Runs = c.Runs, c.Rows
	for _, s := range []*RunSteps{&c.SrcSteps, &c.DstSteps} {
		s.Row, s.Run = s.Run, s.Row
	}
}
