package event

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/base/bytesize"
	"github.com/trainctl/trainctl/core/base/decimal"
)

// status is the state of a run, and formats it. It does not depend on a terminal.
type status struct {
	ranks         int // world size
	phase         string
	epochs        int
	stepsPerEpoch int
	steps         int
	logFreq       int

	last    StepDone
	recent  window
	eval    *EvalDone
	saved   int
	first   time.Time // of the first step seen
	before  int       // steps done before it
	now     time.Time
	loading string // a plugin's progress line
	skipped int
}

// shown is the number of steps over which the loss, the accuracy and the speed of a line
// are averaged, all three over the same ones so that they are comparable.
const shown = 20

// window holds the last steps that were applied.
type window struct {
	steps [shown]StepDone
	n     int
}

func (w *window) add(e *StepDone) {
	w.steps[w.n%shown] = *e
	w.n++
}

// mean is the sample-weighted mean of f over the steps in the window that have the
// value, false without any.
func (w *window) mean(f func(*StepDone) (v float64, ok bool)) (float64, bool) {
	var sum, weight float64
	for i := range min(w.n, shown) {
		e := &w.steps[i]
		if v, ok := f(e); ok {
			samples := float64(max(1, e.Samples))
			sum, weight = sum+v*samples, weight+samples
		}
	}
	return sum / weight, weight > 0
}

func (w *window) loss() (float64, bool) {
	return w.mean(func(e *StepDone) (float64, bool) { return e.LossMean, true })
}

func (w *window) accuracy() (float64, bool) {
	return w.mean(func(e *StepDone) (float64, bool) { return e.Accuracy, !(e.Accuracy < 0) })
}

// speed omits what was not measured.
func (w *window) speed() (float64, bool) {
	return w.mean(func(e *StepDone) (float64, bool) { return e.SamplesPerSec, e.SamplesPerSec > 0 })
}

func (w *window) tokenSpeed() (float64, bool) {
	return w.mean(func(e *StepDone) (float64, bool) { return e.TokensPerSec, e.TokensPerSec > 0 })
}

// notice is a line that stays on the screen.
type notice struct {
	text  string
	color string // SGR parameters; empty: plain
}

const (
	bold   = "1"
	yellow = "33"
	red    = "31"
	green  = "32"
)

// take updates the status and returns the notices to show.
func (s *status) take(r Record) []notice {
	s.now = r.Time
	switch e := r.Event.(type) {
	case *StepDone:
		if r.Rank <= 0 {
			s.step(e)
		}
	case *RunStarted:
		return s.started(e)
	case *PlanMade:
		if r.Rank <= 0 {
			s.planned(e)
		}
	case *PhaseChanged:
		if r.Rank <= 0 {
			s.phase, s.loading = e.Phase, ""
		}
	case *PluginLog:
		return s.log(e, r.Rank)
	case *EvalDone:
		v := *e
		s.eval = &v
		return []notice{{"eval   " + s.evalText(e), bold}}
	case *CheckpointSaved:
		s.saved = e.Step
	default:
		return notices(r)
	}
	return nil
}

func (s *status) started(e *RunStarted) []notice {
	*s = status{now: s.now, ranks: e.WorldSize, epochs: e.Epochs, stepsPerEpoch: e.StepsPerEpoch, steps: e.Steps} // also after a restart
	text := fmt.Sprintf("%s: %d × %s, backend %s, precision %s → %s", e.Name, e.WorldSize, e.Device, e.Backend, e.Precision, e.RunDir)
	if e.Restart > 0 {
		text += fmt.Sprintf(" (restart %d)", e.Restart)
	}
	said := []notice{{text, bold}}
	if e.DeviceReason != "" {
		said = append(said, notice{fmt.Sprintf("device %s: %s", e.Device, e.DeviceReason), ""})
	}
	return said
}

func (s *status) planned(e *PlanMade) {
	s.epochs, s.stepsPerEpoch, s.steps, s.logFreq = e.Epochs, e.StepsPerEpoch, e.Steps, e.LogFreq
}

func (s *status) step(e *StepDone) {
	if s.first.IsZero() {
		s.first, s.before = s.now, e.Step
	}
	s.last, s.phase = *e, "train"
	if e.Skipped {
		s.skipped++
		return
	}
	s.recent.add(e)
}

// log shows downloads in the block and other lines of plugins as notices.
func (s *status) log(e *PluginLog, rank int) []notice {
	if e.Total > 0 {
		if rank <= 0 {
			s.loading = fmt.Sprintf("%s: %s %d%% of %s", e.Plugin, e.Message, 100*e.Done/e.Total, bytesize.Text(e.Total))
		}
		return nil
	}
	switch {
	case e.Level == "error":
		return []notice{{fmt.Sprintf("%s: %s", e.Plugin, e.Message), red}}
	case e.Level == "warn":
		return []notice{{fmt.Sprintf("%s: %s", e.Plugin, e.Message), yellow}}
	case e.Level == "info" && rank <= 0:
		return []notice{{fmt.Sprintf("%s: %s", e.Plugin, e.Message), ""}}
	}
	return nil
}

// notices returns the notices for the rarer events.
func notices(r Record) []notice {
	switch e := r.Event.(type) {
	case *DatasetOpened:
		if r.Rank > 0 {
			return nil
		}
		evaluated := "test samples"
		if e.Validation != "" {
			evaluated = "validation samples held out of them (" + e.Validation + ")"
		}
		out := []notice{{fmt.Sprintf("data   %s (%s): %d training and %d %s", e.Plugin, e.Source, e.TrainSamples, e.TestSamples, evaluated), ""}}
		if e.Notice != "" {
			out = append(out, notice{"NOTICE " + e.Notice, yellow})
		}
		return out
	case *CheckpointLoaded:
		if r.Rank > 0 {
			return nil
		}
		what := fmt.Sprintf("resume from step %d: %s", e.Step, e.Path)
		if e.Step == 0 { // a file of weights alone
			what = "weights from " + e.Path
		}
		out := []notice{{what, ""}}
		for _, n := range e.Notes {
			out = append(out, notice{"       " + n, yellow})
		}
		return out
	case *EarlyStop:
		return []notice{{fmt.Sprintf("early stop: %s has not improved for %d evaluations; the best was %.4g after step %d", e.Metric, e.Without, float64(e.Best), e.BestStep), ""}}
	case *ModelInit:
		var out []notice
		for i, line := range e.Lines() {
			if e.Notice == "" {
				line = []string{"init   ", "       "}[min(i, 1)] + line
			}
			out = append(out, notice{line, yellow})
		}
		return out
	case *BucketsChosen:
		if r.Rank > 0 {
			return nil
		}
		return []notice{{fmt.Sprintf("ddp    bucket_cap_mb = auto: first %g, then %g MiB: %d buckets, %.2f ms exposed (pass %.1f ms, all-reduce %.0f µs + bytes at %.1f GB/s)",
			e.FirstMB, e.CapMB, e.Buckets, e.ExposedMS, e.PassMS, e.AlphaUS, e.GBPerSec), ""}}
	case *Shares:
		return once(r, "shares "+e.String(), "")
	case *Warning:
		return []notice{{fmt.Sprintf("WARNING %s: %s", e.Source, e.Message), yellow}}
	case *BackendRestarted:
		if r.Rank > 0 {
			return nil
		}
		return []notice{{fmt.Sprintf("backend restarted, generation %d, step %d: %s", e.Generation, e.Step, e.Cause), yellow}}
	case *PluginRestarted:
		return []notice{{fmt.Sprintf("%s plugin %q of rank %d restarted after %.2f s (%s): %s", e.Type, e.Name, max(0, r.Rank), e.TookMS/1e3, e.Operation, e.Cause), yellow}}
	case *Elastic:
		if r.Rank > 0 {
			return nil
		}
		return []notice{{fmt.Sprintf("elastic %s instead of %d from step %d on, after %.1f s: %s", ranks(e.Ranks), e.Before, e.Step, e.TookMS/1e3, e.Cause), yellow}}
	case *BackendPlaced:
		return once(r, fmt.Sprintf("backend %s in %s: %s", e.Backend, backendProcess(e), e.Reason), "")
	case *RankFailed:
		return []notice{{fmt.Sprintf("rank %d failed (pid %d, %s): %s", e.FailedRank, e.PID, ending(e), e.Message), red}}
	case *RunDone:
		return []notice{done(e)}
	}
	return nil
}

// ranks is a number of ranks in a sentence.
func ranks(n int) string {
	if n == 1 {
		return "1 rank"
	}
	return fmt.Sprintf("%d ranks", n)
}

// once returns a notice of an event that all ranks send.
func once(r Record, text, color string) []notice {
	if r.Rank > 0 {
		return nil
	}
	return []notice{{text, color}}
}

func ending(e *RankFailed) string {
	if e.Signal != "" {
		return e.Signal
	}
	return "exit code " + strconv.Itoa(e.ExitCode)
}

func done(e *RunDone) notice {
	n := notice{text: fmt.Sprintf("%s after %d steps in %s", e.Status, e.Step, seconds(e.TotalS)), color: green}
	if e.Status != "ok" {
		n.color = red
	}
	if e.Step > 0 {
		n.text += fmt.Sprintf(", loss %.4f", e.Loss)
	}
	if e.Accuracy > 0 {
		n.text += fmt.Sprintf(", accuracy %.2f %%", 100*e.Accuracy)
	}
	if e.Message != "" {
		n.text += ": " + e.Message
	}
	return n
}

func (s *status) evalText(e *EvalDone) string {
	t := fmt.Sprintf("epoch %d  loss %.4f", e.Epoch+1, e.Loss)
	if !(e.Accuracy < 0) {
		t += fmt.Sprintf("  accuracy %.2f %%", 100*e.Accuracy)
	}
	if m := e.Metrics; m != nil && m.TopK > 0 {
		t += fmt.Sprintf("  top-%d %.2f %%", m.TopK, 100*float64(m.TopKAccuracy))
	}
	if e.Perplexity != 0 {
		t += fmt.Sprintf("  perplexity %.4g", e.Perplexity)
	}
	if e.BitsPerByte != 0 {
		t += fmt.Sprintf("  %.4f bits/byte", e.BitsPerByte)
	}
	seen := fmt.Sprintf("%d samples", e.Samples)
	if e.Tokens != 0 {
		seen += fmt.Sprintf(" of %d tokens", e.Tokens)
	}
	return t + fmt.Sprintf("  (%s, %.1f s)", seen, e.TookMS/1000)
}

// line is the one-line form.
func (s *status) line() string { return strings.Join(s.fields(), fieldGap) }

const fieldGap = "  "

// due reports whether a plain line follows this event: every freq steps (0: as in
// PlanMade) and at the end of every epoch.
func (s *status) due(r Record, every int) bool {
	step, ok := r.Event.(*StepDone)
	if !ok || r.Rank > 0 {
		return false
	}
	if every == 0 {
		every = s.logFreq
	}
	if every == 0 {
		every = 100
	}
	per := s.stepsPerEpoch
	return step.Step%every == 0 || step.Step == 1 || per > 0 && step.Step%per == 0
}

// Lines formats a run as lines of plain progress, for a log. Its zero value is ready to
// use. It is not safe for concurrent use.
type Lines struct{ state status }

// Of returns the lines to show for an event, without newlines.
func (l *Lines) Of(r Record) (lines []string) {
	for _, n := range l.state.take(r) {
		lines = append(lines, printable(n.text))
	}
	if l.state.due(r, 0) {
		lines = append(lines, l.state.line())
	}
	return lines
}

// fields are the parts of a line, the most useful first: a narrow terminal shows as many
// of them as fit.
func (s *status) fields() []string {
	e := s.last
	out := []string{"epoch " + of(e.Epoch+1, s.epochs), "step " + of(e.Step, s.steps)}
	add := func(ok bool, format string, v any) {
		if ok {
			out = append(out, fmt.Sprintf(format, v))
		}
	}
	loss, ok := s.recent.loss()
	add(ok, "loss %.4f", loss)
	eta, ok := s.eta()
	add(ok, "eta %s", remaining(eta))
	accuracy, ok := s.recent.accuracy()
	add(ok, "acc %.2f %%", 100*accuracy)
	speed, ok := s.recent.speed()
	add(ok, "%s samples/s", decimal.Group(int64(speed+0.5)))
	tokens, ok := s.recent.tokenSpeed()
	add(ok, "%s tokens/s", decimal.Group(int64(tokens+0.5)))
	add(s.skipped > 0, "skipped %d", s.skipped)
	add(true, "lr %.4g", e.LR)
	add(e.Scale != 0, "scale %g", e.Scale)
	return out
}

// essential is how many fields every line has: epoch, step, loss and eta.
const essential = 4

// short returns the essential fields, for a terminal that is too narrow for the others: with or
// without the totals, the labels of epoch and step, and that of the loss.
func (s *status) short(totals, labels, loss bool) []string {
	epochs, steps := s.epochs, s.steps
	if !totals {
		epochs, steps = 0, 0
	}
	label := func(on bool, name string) string {
		if on {
			return name + " "
		}
		return ""
	}
	out := []string{label(labels, "epoch") + of(s.last.Epoch+1, epochs), label(labels, "step") + of(s.last.Step, steps)}
	if mean, ok := s.recent.loss(); ok {
		out = append(out, label(loss, "loss")+fmt.Sprintf("%.4f", mean))
	}
	if eta, ok := s.eta(); ok {
		out = append(out, "eta "+remaining(eta))
	}
	return out
}

// fitted is the line for a terminal with the given number of columns: the first form that fits.
func (s *status) fitted(columns int) string {
	all := s.fields()
	if displayWidth(strings.Join(all[:min(essential, len(all))], fieldGap)) <= columns {
		return fit(all, fieldGap, columns)
	}
	for _, form := range [][]string{s.short(true, true, true), s.short(false, true, true), s.short(true, false, true), s.short(true, false, false)} {
		if text := strings.Join(form, " "); displayWidth(text) <= columns {
			return text
		}
	}
	return fit(s.short(false, false, false), " ", columns)
}

// fit joins the first fields: as many as fit into the given number of columns, and at least one.
func fit(fields []string, gap string, columns int) string {
	out := fields[0]
	for _, f := range fields[1:] {
		longer := out + gap + f
		if displayWidth(longer) > columns {
			break
		}
		out = longer
	}
	return clip(out, columns)
}

// eta is computed from the speed since the first step seen.
func (s *status) eta() (time.Duration, bool) {
	done := s.last.Step - s.before
	left := s.steps - s.last.Step
	if done < 1 || left < 0 || s.steps == 0 {
		return 0, false
	}
	rest := float64(s.now.Sub(s.first)) * float64(left) / float64(done) // as integers the product of a day and a million steps is too large
	return time.Duration(min(rest, math.MaxInt64/2)), true
}

// block is the form that is redrawn, in lines of at most the given number of columns.
func (s *status) block(columns int) []string {
	if s.last.Step == 0 {
		text := s.phase
		if s.loading != "" {
			text += fieldGap + s.loading
		}
		if text == "" {
			return nil
		}
		return []string{clip("… "+text, columns)}
	}
	second := []string{bar(s.last.Step, s.steps, columns)}
	if s.phase != "train" {
		second = append(second, s.phase)
	}
	if s.eval != nil && !(s.eval.Accuracy < 0) {
		second = append(second, fmt.Sprintf("eval %.2f %%", 100*s.eval.Accuracy))
	}
	if s.saved > 0 {
		second = append(second, fmt.Sprintf("saved step %d", s.saved))
	}
	return []string{s.fitted(columns), fit(second, fieldGap, columns)}
}

// bar takes at most 36 columns.
func bar(n, of, columns int) string {
	wide := displayWidth("━") // 2 in East Asian locales
	if of < 1 {
		return strings.Repeat("─", max(1, min(30, columns)/wide))
	}
	cells := max(1, min(30, columns-len(" 100 %"))/wide)
	full := min(cells, cells*n/of)
	return fmt.Sprintf("%s%s %3d %%", strings.Repeat("━", full), strings.Repeat("─", cells-full), min(100, 100*n/of))
}

func of(n, total int) string {
	if total < 1 {
		return strconv.Itoa(n)
	}
	return strconv.Itoa(n) + "/" + strconv.Itoa(total)
}

func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// remaining rounds a duration for people.
func remaining(d time.Duration) string {
	if d < time.Hour {
		return seconds(d.Seconds())
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// backendProcess describes the process that a backend runs in.
func backendProcess(e *BackendPlaced) string {
	if e.InProcess {
		return "the ranks' processes"
	}
	return "processes of its own"
}
