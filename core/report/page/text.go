package page

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/base/bytesize"
	"github.com/trainctl/trainctl/core/base/decimal"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/rundir"
)

var functions = template.FuncMap{
	"number": number, "millis": millis, "seconds": seconds, "percent": percent, "clean": func(s string) string { return rundir.Clean(s, 16<<10) },
	"size": size, "figure": func(v event.Number) string { return number(float64(v)) },
	"accuracy": func(v float64) string { return percent(100 * v) }, "ratio": func(v event.Number) string { return percent(100 * float64(v)) },
}

// number has four significant digits.
func number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	if a := math.Abs(v); a >= 1000 && a < 1e9 {
		return decimal.Group(int64(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

func millis(v float64) string { return number(v) + " ms" }

func percent(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) + " %" }

func seconds(v float64) string {
	switch {
	case v == 0:
		return "0 s"
	case v < 1:
		return millis(1000 * v)
	case v < 60:
		return strconv.FormatFloat(v, 'f', 1, 64) + " s"
	case v < 1<<33:
		return time.Duration(v * float64(time.Second)).Round(time.Second).String()
	}
	return "–"
}

func size(n int64) string { return bytesize.Text(n) }

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 MST")
}

func finite(n event.Number, text func(float64) string) string {
	if !n.Finite() {
		return ""
	}
	return text(float64(n))
}

func summed(r *rundir.Run, text func(*event.Summary) string) string {
	if r.Summary == nil {
		return ""
	}
	return text(r.Summary)
}

func planned(r *rundir.Run, text func(*event.PlanMade) string) string {
	if r.Plan == nil {
		return ""
	}
	return text(r.Plan)
}

func started(r *rundir.Run, text func(*event.RunStarted) string) string {
	if r.Started == nil {
		return ""
	}
	return text(r.Started)
}

func continued(r *rundir.Run) string {
	return started(r, func(s *event.RunStarted) string {
		if s.Continues == "" {
			return ""
		}
		text := s.Continues
		if r.Loaded != nil {
			text += fmt.Sprintf(", from step %d", r.Loaded.Step)
		}
		if r.Before == nil {
			text += " (whose directory was not found: its steps are not shown)"
		}
		return text
	})
}

func progress(r *rundir.Run) string {
	text := decimal.Group(int64(r.LastStep()))
	if n := r.Steps(); n > 0 {
		text += " of " + decimal.Group(int64(n))
	}
	if n := r.Curves.Total.Skipped; n > 0 {
		text += fmt.Sprintf(", %d skipped by the loss scaler", n)
	}
	if n := r.Curves.Total.Cells[rundir.Loss].Bad; n > 0 {
		text += fmt.Sprintf(", %d with a loss that is not finite", n)
	}
	return text
}

func ranksText(r *rundir.Run) string {
	return started(r, func(s *event.RunStarted) string {
		return fmt.Sprintf("%d × %s, backend %s, precision %s", s.WorldSize, s.Device, s.Backend, s.Precision)
	})
}

func dataText(r *rundir.Run) string {
	d := r.Dataset
	if d == nil {
		return ""
	}
	text := fmt.Sprintf("%s (%s): %s training and %s test samples", d.Plugin, d.Source, decimal.Group(int64(d.TrainSamples)), decimal.Group(int64(d.TestSamples)))
	return strings.TrimSpace(text + " " + d.Notice)
}

func lastLoss(r *rundir.Run) string {
	if r.Summary != nil && r.Summary.Train.Loss.Finite() {
		return number(float64(r.Summary.Train.Loss))
	}
	if c := r.Curves.Total.Cells[rundir.Loss]; c.N > 0 {
		return number(c.Last) + " in the last step"
	}
	return ""
}

func evalText(r *rundir.Run) string {
	if len(r.Evals) == 0 {
		return ""
	}
	e := r.Evals[len(r.Evals)-1]
	out := []string{"loss " + number(e.Loss)}
	if !(e.Accuracy < 0) {
		out = append(out, "accuracy "+percent(100*e.Accuracy))
	}
	if e.Perplexity > 0 {
		out = append(out, "perplexity "+number(e.Perplexity))
	}
	if e.BitsPerByte > 0 {
		out = append(out, number(e.BitsPerByte)+" bits per byte")
	}
	return strings.Join(out, ", ") + fmt.Sprintf(" after step %d", e.Step)
}

func bestText(r *rundir.Run) string {
	best := r.Best()
	if best == nil {
		return ""
	}
	return fmt.Sprintf("step %d: %s", best.Step, best.Path)
}

func speedText(r *rundir.Run) string {
	text := func(samples, tokens float64) string {
		out := number(samples) + " samples/s"
		if tokens > 0 {
			out += ", " + number(tokens) + " tokens/s"
		}
		return out
	}
	if s := r.Summary; s != nil && s.Train.SamplesPerSec > 0 {
		return text(float64(s.Train.SamplesPerSec), float64(s.Train.TokensPerSec))
	}
	if c := r.Curves.Total.Cells; c[rundir.SamplesPerSec].N > 0 {
		return text(c[rundir.SamplesPerSec].Mean(), c[rundir.TokensPerSec].Mean())
	}
	return ""
}

func stepText(r *rundir.Run) string {
	if s := r.Summary; s != nil && s.Train.StepMSP50 > 0 {
		return fmt.Sprintf("median %s, 99th percentile %s", millis(float64(s.Train.StepMSP50)), millis(float64(s.Train.StepMSP99)))
	}
	if c := r.Curves.Total.Cells[rundir.StepMS]; c.N > 0 {
		return "mean " + millis(c.Mean())
	}
	return ""
}

func memoryText(r *rundir.Run) string {
	if r.Summary == nil || len(r.Summary.Memory.PeakRSSBytes) == 0 {
		return ""
	}
	return size(slices.Max(r.Summary.Memory.PeakRSSBytes)) + ", plugins included"
}

func bucketText(r *rundir.Run) string {
	text := planned(r, func(p *event.PlanMade) string { return strconv.Itoa(p.Buckets) })
	if s := r.Summary; s != nil && s.Comm.BucketCapsMB[1] > 0 {
		text += fmt.Sprintf(" (caps: first %g MB, others %g MB)", s.Comm.BucketCapsMB[0], s.Comm.BucketCapsMB[1])
	}
	if b := r.Buckets; b != nil {
		text += fmt.Sprintf(", chosen by measuring: pass %s, all-reduce %s µs + %s GB/s, expected exposed communication %s",
			millis(b.PassMS), number(b.AlphaUS), number(b.GBPerSec), millis(b.ExposedMS))
	}
	return text
}

func restartText(r *rundir.Run) string {
	var out []string
	for _, k := range []struct{ kind, one, more string }{
		{"restart", "of all ranks", "of all ranks"}, {"replaced", "plugin replaced", "plugins replaced"},
		{"membership", "change of the ranks", "changes of the ranks"}, {"failure", "failure", "failures"},
	} {
		n := 0
		for _, m := range r.Marks {
			if m.Kind == k.kind {
				n++
			}
		}
		switch n {
		case 0:
		case 1:
			out = append(out, "1 "+k.one)
		default:
			out = append(out, fmt.Sprint(n, " ", k.more))
		}
	}
	return cmp.Or(strings.Join(out, ", "), "none")
}

func sameParameters(s *event.Summary) string {
	sums := slices.Compact(slices.Sorted(slices.Values(s.ParamsSHA256)))
	switch len(sums) {
	case 0:
		return ""
	case 1:
		return "equal, sha256 " + sums[0]
	}
	return fmt.Sprintf("%d different checksums", len(sums))
}

// settings are the configuration of a run; one that cannot be read is a problem of the run.
func settings(r *rundir.Run, o Options) (out []setting) {
	recorded, err := config.ReadRecorded(r.Config, o.Plugins...)
	if err != nil {
		return []setting{{Key: "config.toml", Value: err.Error(), Changed: true}}
	}
	for _, s := range recorded {
		out = append(out, setting{rundir.Clean(s.Key, 200), rundir.Clean(s.Value, 2000), s.Default, s.Changed()})
	}
	return out
}
