package page

import (
	"encoding/base64"
	"fmt"
	"html/template"
	"slices"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/rundir"
)

// chartView is a chart with its numbers.
type chartView struct {
	chart
	Width  int // steps of a point, if several
	Totals []totals
	Steps  []numbers
}

// totals sum up a curve.
type totals struct {
	ID                           string
	First, Last                  string
	Least, LeastAt, Most, MostAt string
	Mean                         string
	Bad                          int
}

// numbers are the values of all runs about a step.
type numbers struct {
	Step  int
	Cells []string
}

// listed is how many steps the table of a chart has.
const listed = 20

func newChartView(c chart, runs []runView) chartView {
	v := chartView{chart: c}
	last, first := 0, 0
	for _, r := range runs {
		t := &r.Curves.Total
		v.Width = max(v.Width, r.Curves.Width)
		last = max(last, t.Last)
		if first == 0 || t.First < first {
			first = t.First
		}
		v.Totals = append(v.Totals, totalsOf(c, r.Run))
	}
	every := max(1, (last-first+listed)/listed)
	for step := first; step <= last && step > 0; step += every {
		line := numbers{Step: step}
		for _, r := range runs {
			line.Cells = append(line.Cells, valueAt(c, &r.Curves, step))
		}
		v.Steps = append(v.Steps, line)
	}
	return v
}

func valueAt(c chart, curves *rundir.Curves, step int) string {
	if len(curves.Intervals) == 0 || step < curves.Intervals[0].First {
		return "–"
	}
	i := (step - curves.Intervals[0].First) / curves.Width
	if i >= len(curves.Intervals) || curves.Intervals[i].Cells[c.metric].N == 0 {
		return "–"
	}
	return number(c.Scale.of(curves.Intervals[i].Cells[c.metric].Mean()))
}

func totalsOf(c chart, r *rundir.Run) totals {
	cell := r.Curves.Total.Cells[c.metric]
	t := totals{ID: r.ID, First: "–", Last: "–", Least: "–", Most: "–", Mean: "–", Bad: cell.Bad}
	if cell.N == 0 {
		return t
	}
	t.Last, t.Mean = number(c.Scale.of(cell.Last)), number(c.Scale.of(cell.Mean()))
	t.Least, t.Most = number(c.Scale.of(cell.Least)), number(c.Scale.of(cell.Greatest))
	for i := range r.Curves.Intervals {
		v := &r.Curves.Intervals[i]
		m := v.Cells[c.metric]
		if m.N == 0 {
			continue
		}
		if t.First == "–" {
			t.First = number(c.Scale.of(m.Mean()))
		}
		if t.LeastAt == "" && m.Least == cell.Least {
			t.LeastAt = steps(v)
		}
		if t.MostAt == "" && m.Greatest == cell.Greatest {
			t.MostAt = steps(v)
		}
	}
	return t
}

func steps(v *rundir.Interval) string {
	if v.First == v.Last {
		return fmt.Sprintf("step %d", v.First)
	}
	return fmt.Sprintf("steps %d–%d", v.First, v.Last)
}

// matrix is a confusion matrix.
type matrix struct {
	Step    int
	Classes []string
	Rows    []matrixRow
	Total   int64
	Right   string
	Hidden  int // classes that are not shown
}

type matrixRow struct {
	Class string
	Cells []matrixCell
	Found string // recall
}

type matrixCell struct {
	N     int64
	Shade int // percent of the row
	Right bool
}

// mostClasses is how many classes of a confusion matrix are shown.
const mostClasses = 40

func newMatrix(e *event.Evaluation) *matrix {
	if e == nil || len(e.Confusion) == 0 {
		return nil
	}
	shown := min(len(e.Confusion), mostClasses)
	m := &matrix{Step: e.Step, Hidden: len(e.Confusion) - shown}
	var right int64
	for i, line := range e.Confusion {
		row := matrixRow{Class: className(e.Classes, i)}
		var sum int64
		for _, n := range line {
			sum += n
		}
		m.Total += sum
		if i < len(line) {
			right += line[i]
			row.Found = percent(100 * float64(line[i]) / float64(max(1, sum)))
		}
		if i >= shown {
			continue
		}
		for j, n := range line[:min(shown, len(line))] {
			row.Cells = append(row.Cells, matrixCell{n, int(100 * n / max(1, sum)), i == j})
		}
		m.Classes = append(m.Classes, row.Class)
		m.Rows = append(m.Rows, row)
	}
	m.Right = percent(100 * float64(right) / float64(max(1, m.Total)))
	return m
}

func className(names []string, i int) string {
	if i >= 0 && i < len(names) {
		return rundir.Clean(names[i], 60)
	}
	return fmt.Sprint(i)
}

// worst is a sample with a large loss.
type worst struct {
	Sample, Class, Predicted string
	Probability, Loss        string
	Input                    string
	Image                    template.URL // "": it has no picture, or there are too many
}

// pictureBytes is the size of the pictures of all runs of a page, in base64.
const pictureBytes = 1 << 20

// worstOf are the worst samples of an evaluation, with pictures of so many bytes in base64.
func worstOf(e *event.Evaluation, room int) (out []worst) {
	for _, w := range e.Worst {
		v := worst{
			Sample: fmt.Sprintf("%s %d", rundir.Clean(w.Split, 20), w.Index), Class: className(e.Classes, w.Class), Predicted: className(e.Classes, w.Predicted),
			Probability: percent(100 * float64(w.Probability)), Loss: number(float64(w.Loss)), Input: rundir.Clean(w.Input, 1000),
		}
		if n := base64.StdEncoding.EncodedLen(len(w.Picture)); n > 0 && n <= room {
			room -= n
			v.Image = template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(w.Picture))
		}
		out = append(out, v)
	}
	return out
}

// Pictured are the worst samples that have a picture.
func (v detail) Pictured() (out []worst) {
	for _, w := range v.Worst {
		if w.Image != "" {
			out = append(out, w)
		}
	}
	return out
}

// Inputs reports whether a sample is shown as text.
func (v detail) Inputs() bool {
	return slices.ContainsFunc(v.Worst, func(w worst) bool { return w.Input != "" })
}
