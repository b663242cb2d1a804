package watch

import (
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/report/rundir"
)

// Plain shows a run as lines of a log. Its zero value has shown nothing yet.
type Plain struct {
	marks  int
	step   int
	status string
}

// Next returns the lines for what has happened since the last call: events, a line about steps if
// as many were done as train.log_freq says, and the outcome.
func (p *Plain) Next(r *rundir.Run, now time.Time) (lines []string) {
	for _, m := range r.Marks[p.marks:] {
		lines = append(lines, oneLine(markText(m)))
	}
	p.marks = len(r.Marks)
	every := 100
	if r.Plan != nil && r.Plan.LogFreq > 0 {
		every = r.Plan.LogFreq
	}
	status, step := r.Status(now), r.LastStep()
	ended := status != rundir.Running && status != p.status
	if step > p.step && (ended || p.step == 0 || step/every > p.step/every) {
		p.step = step
		c := &r.Curves.Total.Cells
		lines = append(lines, fmt.Sprintf("%s  loss %s  %s samples/s", progressText(r), number(c[rundir.Loss].Last), number(c[rundir.SamplesPerSec].Last)))
	}
	if status != p.status {
		p.status = status
		lines = append(lines, oneLine(r.ID+"  "+status))
	}
	return lines
}
