package page

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/trainctl/trainctl/core/report/rundir"
	"github.com/trainctl/trainctl/core/report/timeline"
)

// data is what assets/page.js draws.
type data struct {
	Charts []chart  `json:"charts"`
	Runs   []curve  `json:"runs"`
	Traces []*trace `json:"traces"` // nil: as the last time
	Have   []had    `json:"have"`   // by run
}

// had is what a page has of a run.
type had struct {
	Run    string `json:"run"`
	State  string `json:"state"` // of its intervals: as long as it is equal, only the last may have changed
	Points int    `json:"points"`
	Evals  int    `json:"evals"`
	Trace  string `json:"trace"`
}

// curve is a run as the charts have it. Step and Time have an entry for every interval, and so
// has each series.
type curve struct {
	ID     string            `json:"id"`
	From   int               `json:"from"`  // how many points of the last time are left out
	Width  int               `json:"width"` // steps of an interval
	Step   []int             `json:"step"`  // the last of each
	Time   column            `json:"time"`  // seconds since the start, without pauses between resumed runs
	Series map[string]series `json:"series"`
	Evals  evals             `json:"evals"`
	Marks  []mark            `json:"marks"`
}

// series is a metric of a run. Least and Greatest are left out where they equal Mean.
type series struct {
	Mean     column `json:"mean"`
	Least    column `json:"least,omitempty"`
	Greatest column `json:"greatest,omitempty"`
}

type evals struct {
	From     int    `json:"from"` // how many of the last time are left out
	Step     []int  `json:"step"`
	Time     column `json:"time"`
	Loss     column `json:"loss"`
	Accuracy column `json:"accuracy"`
}

type mark struct {
	Step int     `json:"step"`
	Time float64 `json:"time"`
	Kind string  `json:"kind"`
	Text string  `json:"text"`
}

// column is a list of numbers with six digits each; those that are not finite are null.
type column []float64

func (c column) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i, v := range c {
		if i > 0 {
			b = append(b, ',')
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			b = append(b, "null"...)
			continue
		}
		b = strconv.AppendFloat(b, v, 'g', 6, 64)
	}
	return append(b, ']'), nil
}

// points is how many intervals all curves of a page have together: about 2 MB.
const points = 12_000

// chartData returns what was added since the page had what have says.
func chartData(runs []Input, have string) data {
	d := data{Charts: chartsOf(runs)}
	var before []had
	if json.Unmarshal([]byte(have), &before) != nil || len(before) != len(runs) {
		before = make([]had, len(runs)) // nothing
	}
	for i, in := range runs {
		b := before[i]
		if b.Run != in.Run.ID {
			b = had{}
		}
		c, now := curveOf(in.Run, max(64, min(rundir.Resolution, points/len(runs))), b)
		var t *trace
		if in.Trace != nil {
			now.Trace = in.Trace.Stamp
		}
		if b.Run == "" || b.Trace != now.Trace {
			t = traceOf(in.Trace)
		}
		d.Runs, d.Traces, d.Have = append(d.Runs, c), append(d.Traces, t), append(d.Have, now)
	}
	return d
}

// chartsOf are the charts for which some run has values.
func chartsOf(runs []Input) (out []chart) {
	for _, c := range charts {
		if slices.ContainsFunc(runs, func(in Input) bool { return recorded(in.Run, c) }) {
			out = append(out, c)
		}
	}
	return out
}

// recorded reports whether a run, or one that it continues, has values of a chart.
func recorded(r *rundir.Run, c chart) bool {
	for ; r != nil; r = r.Before {
		if r.Curves.Total.Cells[c.metric].N > 0 {
			return true
		}
	}
	return false
}

// part is the part of a run that counts in the run that it is, or is continued by, and how many
// seconds of earlier runs are before it.
type part struct {
	run   *rundir.Run
	until int     // the last step that counts
	after float64 // seconds
}

// parts are the runs that r continues, and r itself, the first one first.
func parts(r *rundir.Run) []part {
	until := math.MaxInt
	var out []part
	for ; r != nil; r = r.Before {
		out = append(out, part{run: r, until: until})
		if r.Loaded != nil {
			until = min(until, r.Loaded.Step)
		} else {
			until = min(until, r.Curves.Total.First-1)
		}
	}
	slices.Reverse(out)
	for i := range out[1:] {
		out[i+1].after = out[i].after + lastSecond(out[i])
	}
	return out
}

// lastSecond is when the last step that counts ended.
func lastSecond(p part) (seconds float64) {
	for _, v := range p.run.Curves.Intervals {
		if v.First <= p.until {
			seconds = max(seconds, v.Seconds)
		}
	}
	return seconds
}

// curveOf returns what a page that had some of it lacks, and what it has then.
func curveOf(r *rundir.Run, limit int, before had) (curve, had) {
	c := curve{ID: r.ID, Step: []int{}, Time: column{}, Series: map[string]series{}, Marks: []mark{}, Evals: evals{Step: []int{}, Time: column{}, Loss: column{}, Accuracy: column{}}}
	all := parts(r)
	var rows []row
	for _, p := range all {
		coarse := p.run.Curves.Coarse(max(32, limit/len(all)))
		c.Width = max(c.Width, coarse.Width)
		for i := range coarse.Intervals {
			if v := &coarse.Intervals[i]; v.Steps > 0 && v.First <= p.until {
				rows = append(rows, row{min(v.Last, p.until), v.Seconds + p.after, &v.Cells})
			}
		}
		c.happened(p)
	}
	now := had{Run: r.ID, State: stateOf(r, c.Width, len(all)), Points: len(rows), Evals: len(c.Evals.Step)}
	if before.State == now.State && 0 < before.Points && before.Points <= len(rows) && 0 <= before.Evals && before.Evals <= now.Evals {
		c.From = before.Points - 1
		c.Evals.cut(before.Evals)
	}
	for _, v := range rows[c.From:] {
		c.Step, c.Time = append(c.Step, v.last), append(c.Time, v.seconds)
	}
	for _, ch := range charts {
		if recorded(r, ch) {
			c.Series[ch.ID] = seriesOf(rows[c.From:], ch)
		}
	}
	return c, now
}

// stateOf changes when other points of a run than the last have changed.
func stateOf(r *rundir.Run, width, parts int) string {
	loaded := -1
	if r.Loaded != nil {
		loaded = r.Loaded.Step
	}
	return fmt.Sprint(width, r.Curves.Rewritten, loaded, parts, r.Began.UnixNano())
}

// cut leaves the first n out.
func (e *evals) cut(n int) {
	e.From, e.Step, e.Time, e.Loss, e.Accuracy = n, e.Step[n:], e.Time[n:], e.Loss[n:], e.Accuracy[n:]
}

// happened adds evaluations and marks.
func (c *curve) happened(p part) {
	for _, e := range p.run.Evals {
		if e.Step > p.until {
			continue
		}
		accuracy := 100 * e.Accuracy
		if e.Accuracy < 0 {
			accuracy = math.NaN()
		}
		c.Evals.Step, c.Evals.Time = append(c.Evals.Step, e.Step), append(c.Evals.Time, e.Seconds+p.after)
		c.Evals.Loss, c.Evals.Accuracy = append(c.Evals.Loss, e.Loss), append(c.Evals.Accuracy, accuracy)
	}
	for _, m := range p.run.Marks {
		if m.Step > p.until || m.Kind == "note" || m.Kind == "warning" || m.Kind == "end" {
			continue
		}
		c.Marks = append(c.Marks, mark{m.Step, m.Seconds + p.after, m.Kind, rundir.Clean(m.Text, 300)})
	}
}

// row is an interval of one of the parts.
type row struct {
	last    int
	seconds float64 // since the start of the first part
	cells   *[rundir.Metrics]rundir.Cell
}

func seriesOf(rows []row, ch chart) (s series) {
	band := false
	for i := range rows {
		cell := &rows[i].cells[ch.metric]
		band = band || cell.N > 0 && cell.Least < cell.Greatest
		least, greatest := cell.Least, cell.Greatest
		if cell.N == 0 {
			least, greatest = math.NaN(), math.NaN()
		}
		s.Mean = append(s.Mean, ch.Scale.of(cell.Mean()))
		s.Least, s.Greatest = append(s.Least, ch.Scale.of(least)), append(s.Greatest, ch.Scale.of(greatest))
	}
	if !band {
		s.Least, s.Greatest = nil, nil
	}
	return s
}

// trace is a timeline. Slices are [row, name, start µs, length µs, step, bytes], flat.
type trace struct {
	Rows   []string `json:"rows"`
	Names  []string `json:"names"`
	Slices []int    `json:"slices"`
}

// Bounds of the timelines of a page.
const (
	mostSlices = 20_000 // of all ranks
	mostRanks  = 16
)

func traceOf(t *rundir.Trace) *trace {
	out := &trace{Rows: []string{}, Names: []string{}, Slices: []int{}}
	if t == nil {
		return out
	}
	names := map[string]int{}
	origin := origin(t)
	for rank, slices := range t.Ranks[:min(len(t.Ranks), mostRanks)] {
		rows := map[timeline.Stream]int{}
		for _, s := range slices {
			if _, ok := rows[s.Stream]; !ok {
				rows[s.Stream] = -1
			}
		}
		for stream := range timeline.Stream(math.MaxUint8) {
			if _, ok := rows[stream]; ok {
				rows[stream] = len(out.Rows)
				out.Rows = append(out.Rows, "rank "+strconv.Itoa(rank)+" "+stream.String())
			}
		}
		for _, s := range slices {
			if _, ok := names[s.Name]; !ok {
				names[s.Name] = len(out.Names)
				out.Names = append(out.Names, rundir.Clean(s.Name, 80))
			}
			out.Slices = append(out.Slices, rows[s.Stream], names[s.Name], int((s.Start - origin).Microseconds()), int(s.Length.Microseconds()), s.Step, s.Bytes)
		}
	}
	return out
}
