package watch

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/trainctl/trainctl/core/base/decimal"
	"github.com/trainctl/trainctl/core/report/rundir"
)

// Options say how a block looks.
type Options struct {
	Columns int // at least 20
	Rows    int // at most so many lines; 0: as many as there are
	Color   bool
	Now     time.Time
	Usage   map[int]float64 // cores that each rank's process uses
}

// The colours of a terminal, which its theme adapts to a light or a dark background.
const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// Lines are the lines of the block, each of at most Columns columns, without newlines.
func Lines(r *rundir.Run, o Options) []string {
	b := block{o: o}
	status := r.Status(o.Now)
	b.add(bold, rundir.Clean(r.ID, 200)+"  "+status+phase(r, status))
	b.add(colorOf(status), progress(r, o.Columns))
	b.curve("loss", r, rundir.Loss, "")
	b.curve("speed", r, rundir.SamplesPerSec, " samples/s")
	if n := len(r.Evals); n > 0 {
		b.add("", "eval   "+evalText(&r.Evals[n-1]))
	}
	b.add("", shares(r))
	b.usage()
	b.events(r)
	if o.Rows > 0 && len(b.lines) > o.Rows {
		b.lines = b.lines[:o.Rows]
	}
	return b.lines
}

type block struct {
	o     Options
	lines []string
}

// add adds a line unless it is empty.
func (b *block) add(color, text string) {
	if text == "" {
		return
	}
	text = runewidth.Truncate(oneLine(text), b.o.Columns, "…")
	if b.o.Color && color != "" {
		text = "\x1b[" + color + "m" + text + "\x1b[0m"
	}
	b.lines = append(b.lines, text)
}

// oneLine keeps text of a run from controlling the terminal. It keeps the indentation.
func oneLine(text string) string {
	indent := len(text) - len(strings.TrimLeft(text, " "))
	return text[:indent] + strings.NewReplacer("\n", " ", "\t", " ").Replace(rundir.Clean(text, 2000))
}

func phase(r *rundir.Run, status string) string {
	if status != rundir.Running || r.Phase == "" || r.Phase == "train" {
		return ""
	}
	return " (" + r.Phase + ")"
}

func colorOf(status string) string {
	switch status {
	case rundir.Running:
		return ""
	case "ok":
		return green
	case "failed", "diverged", rundir.Lost:
		return red
	}
	return yellow
}

// progress is a bar, steps, the time so far and, of a running run, the time that is left.
func progress(r *rundir.Run, columns int) string {
	done, all := r.LastStep(), r.Steps()
	text := progressText(r)
	if all > 0 {
		cells := max(4, min(30, columns/4)) / runewidth.StringWidth("━")
		full := min(cells, cells*done/all)
		text = fmt.Sprintf("%s%s %3d %%  %s", strings.Repeat("━", full), strings.Repeat("─", cells-full), min(100, 100*done/all), text)
	}
	if n := len(r.Curves.Intervals); r.Summary == nil && n > 0 && done < all {
		first := r.Curves.Intervals[0]
		if steps := done - first.First; steps > 0 {
			text += "  eta " + duration((r.Curves.Total.Seconds-first.Seconds)/float64(steps)*float64(all-done))
		}
	}
	return text
}

// progressText is the steps done and the time so far.
func progressText(r *rundir.Run) string {
	text := "step " + strconv.Itoa(r.LastStep())
	if all := r.Steps(); all > 0 {
		text += "/" + strconv.Itoa(all)
	}
	return text + "  " + duration(r.Elapsed().Seconds())
}

func duration(seconds float64) string {
	if !(seconds >= 0 && seconds < 1<<33) {
		return "?"
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

func number(v float64) string {
	if a := math.Abs(v); a >= 1000 && a < 1e9 {
		return decimal.Group(int64(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// curve adds a sparkline over all steps, its last value and its range.
func (b *block) curve(name string, r *rundir.Run, m rundir.Metric, unit string) {
	total := r.Curves.Total.Cells[m]
	if total.N == 0 {
		return
	}
	left := fmt.Sprintf("%-6s %s%s  ", name, number(total.Last), unit)
	right := fmt.Sprintf("  %s to %s", number(total.Least), number(total.Greatest))
	room := b.o.Columns - runewidth.StringWidth(left)
	if rest := room - runewidth.StringWidth(right); rest >= 10 {
		room = rest
	} else {
		right = ""
	}
	b.add("", left+spark(&r.Curves, m, min(100, room))+right)
}

func evalText(e *rundir.Eval) string {
	text := "loss " + number(e.Loss)
	if e.Accuracy >= 0 {
		text += fmt.Sprintf("  accuracy %.2f %%", 100*e.Accuracy)
	}
	if e.Perplexity > 0 {
		text += "  perplexity " + number(e.Perplexity)
	}
	return text + fmt.Sprintf("  after step %d", e.Step)
}

// shares says where the time of rank 0's last steps goes: comm is its wait for communication and for
// slower ranks.
func shares(r *rundir.Run) string {
	n := len(r.Curves.Intervals)
	if n == 0 {
		return ""
	}
	c := &r.Curves.Intervals[n-1].Cells
	step := c[rundir.StepMS].Mean()
	if !(step > 0) {
		return ""
	}
	part := func(ms float64) float64 { return 100 * ms / step }
	data, comm := c[rundir.DataMS].Mean(), c[rundir.CommMS].Mean()
	return fmt.Sprintf("step   %s ms: compute %.0f %%, comm %.0f %%, data %.0f %%", number(step), max(0, part(step-data-comm)), part(comm), part(data))
}

// mostLines is how many lines the ranks take.
const mostLines = 4

// usage adds the cores that ranks use, several ranks to a line.
func (b *block) usage() {
	ranks := slices.Sorted(maps.Keys(b.o.Usage))
	line, lines := "cores ", 0
	for i, rank := range ranks {
		text := fmt.Sprintf(" rank %d: %.2f ", rank, b.o.Usage[rank])
		if runewidth.StringWidth(line+text) > b.o.Columns {
			b.add("", strings.TrimRight(line, " "))
			line = "      "
			if lines++; lines == mostLines {
				b.add("", fmt.Sprintf("       … (%d more ranks)", len(ranks)-i))
				return
			}
		}
		line += text
	}
	if len(ranks) > 0 {
		b.add("", strings.TrimRight(line, " "))
	}
}

// lastEvents is how many events the block shows.
const lastEvents = 6

func (b *block) events(r *rundir.Run) {
	shown := r.Marks[max(0, len(r.Marks)-lastEvents):]
	if len(shown) > 0 {
		b.add(bold, "events")
	}
	for _, m := range shown {
		b.add(colorOfMark(m), markText(m))
	}
}

func colorOfMark(m rundir.Mark) string {
	switch m.Kind {
	case "failure":
		return red
	case "warning", "replaced", "restart":
		return yellow
	}
	return ""
}

func markText(m rundir.Mark) string {
	text := m.Text
	if m.Kind != "warning" { // whose text says so
		text = m.Kind + ": " + text
	}
	return fmt.Sprintf("%8s  step %d  %s", duration(m.Seconds), m.Step, text)
}
