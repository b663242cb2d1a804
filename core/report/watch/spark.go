package watch

import (
	"math"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/trainctl/trainctl/core/report/rundir"
)

// bars are the heights of a sparkline; gap is where there is no value, and bad where no value was finite.
const (
	bars = "▁▂▃▄▅▆▇█"
	gap  = ' '
	bad  = '×'
)

// spark draws the means of a metric over all steps in at most so many columns.
func spark(c *rundir.Curves, m rundir.Metric, columns int) string {
	cells := resample(c, m, max(1, columns/runewidth.RuneWidth('▁')))
	least, greatest := math.Inf(1), math.Inf(-1)
	for i := range cells {
		if cells[i].N > 0 {
			least, greatest = min(least, cells[i].Mean()), max(greatest, cells[i].Mean())
		}
	}
	heights := []rune(bars)
	var b strings.Builder
	for i := range cells {
		switch v := cells[i]; {
		case v.N > 0 && greatest > least:
			at := (v.Mean() - least) / (greatest - least) * float64(len(heights))
			b.WriteRune(heights[max(0, min(len(heights)-1, int(at)))])
		case v.N > 0:
			b.WriteRune(heights[len(heights)/2])
		case v.Bad > 0:
			b.WriteRune(bad)
		default:
			b.WriteRune(gap)
		}
	}
	return b.String()
}

// resample joins the intervals of curves into at most n cells of equally many intervals, but for one.
func resample(c *rundir.Curves, m rundir.Metric, n int) []rundir.Cell {
	n = min(n, len(c.Intervals))
	out := make([]rundir.Cell, n)
	for i := range c.Intervals {
		v := c.Intervals[i].Cells[m]
		to := &out[i*n/len(c.Intervals)]
		to.Sum, to.N, to.Bad = to.Sum+v.Sum, to.N+v.N, to.Bad+v.Bad
	}
	return out
}
