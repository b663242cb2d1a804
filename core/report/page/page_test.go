package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/rundir"
	"github.com/trainctl/trainctl/core/report/rundir/rundirtest"
	"github.com/trainctl/trainctl/core/report/timeline"
)

func input(t *testing.T, r *rundirtest.Run, runs int) Input {
	t.Helper()
	in, err := Read(r.FS, r.Dir, runs)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func write(t *testing.T, runs ...Input) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, runs, Options{Version: "test", Now: rundirtest.Noon.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// full writes a run with everything that a page shows.
func full(t *testing.T, fsys afero.Fs, name string, steps int) *rundirtest.Run {
	t.Helper()
	r := rundirtest.New(t, fsys, "/runs", name)
	r.Write(r.Dir.Config(), []byte("[run]\nname = \""+name+"\"\n[optimizer]\nlr = 0.125\n"))
	r.Tell(&event.RunStarted{Name: name, WorldSize: 2, Device: "cpu", Backend: "tcp", Precision: "none"}, &event.PlanMade{Parameters: 29034, Buckets: 1, BytesPerStep: 1 << 20, Steps: steps},
		&event.PluginStarted{Type: "backend", Name: "tcp", Path: "/bin/trainctl", SHA256: "00ff"}, &event.DatasetOpened{Plugin: "mnist", Source: "idx", TrainSamples: 60000})
	r.Steps(1, steps/2)
	r.Tell(&event.EvalDone{Step: steps / 2, Loss: 0.5, Accuracy: 0.75, Samples: 10}, &event.CheckpointSaved{Step: steps / 2, Path: "checkpoints/half", Best: true},
		&event.BackendRestarted{Generation: 2, Step: steps / 2, Cause: "rank 1's plugin was killed"})
	r.Steps(steps/2+1, steps)
	r.Tell(&event.RunDone{Status: "ok"})
	slow := 1
	r.Summary(event.Summary{Name: name, Status: "ok", WorldSize: 2, Steps: steps, Layers: []event.LayerTime{{Layer: "conv<1>", ForwardMS: 1, BackwardMS: 2}, {Layer: "fc", ForwardMS: 0.5, BackwardMS: 0.5}}, ParamsSHA256: []string{"aa", "aa"}, Memory: event.MemorySummary{PeakRSSBytes: []int64{1 << 20, 2 << 20}},
		Comm: event.CommSummary{SlowestRank: &slow, ExposedMSP50: 0.25}})
	r.Timeline(2, 60)
	e := &event.Evaluation{Step: steps, Classes: []string{"cat", "dog"}, Confusion: [][]int64{{5, 1}, {2, 7}}, Worst: []event.WorstSample{{Split: "test", Index: 17, Class: 1, Loss: 9, Probability: 0.99, Picture: rundirtest.Picture(t, 8)}, {Split: "test", Index: 18}}}
	if err := r.Dir.WriteEvaluation(r.FS, e); err != nil {
		t.Fatal(err)
	}
	return r
}

// The page has what the run directory has.
func TestPageOfARun(t *testing.T) {
	text := write(t, input(t, full(t, afero.NewMemMapFs(), "mnist", 500), 1))
	for _, want := range []string{
		"<title>mnist/1 – trainctl</title>", "29,034", "equal, sha256 aa", "rank 1", "backend tcp, precision none", "step 250: checkpoints/half", "rank 1&#39;s plugin was killed",
		"<code>optimizer.lr</code></th><td><code>0.125</code></td><td><code>0.001</code>", "80.00 % of 15 samples", "test 17", "99.00 %", "(the others wait for it)", "1 MiB", "rank 1 (slowest)",
		"bucket", "loss 0.5, accuracy 75.00 % after step 250", "<code>00ff</code>", "1 plugin replaced",
		`<img src="data:image/png;base64,iVBOR`, `alt="test 17: dog, predicted as cat"`, "Last and best evaluation: after step 500",
		`<th scope="row">conv&lt;1&gt;</th><td>1 ms</td><td>2 ms</td><td>75.00 %</td>`, `<rect x="33.333`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	outside := regexp.MustCompile(`(?i)(src|href|action)\s*=\s*["']?(https?:)?//|url\(|@import|<link|<img src="[^d]|<iframe`)
	if m := outside.FindString(text); m != "" {
		t.Errorf("the page refers to something outside: %q", m)
	}
}

// Of two runs, the page shows what differs, and nothing else.
func TestPageOfTwoRuns(t *testing.T) {
	fsys := afero.NewMemMapFs()
	a, b := full(t, fsys, "a", 100), full(t, fsys, "b", 100)
	b.Write(b.Dir.Config(), []byte("[run]\nname = \"a\"\n[optimizer]\nlr = 0.25\n"))
	runs := []Input{input(t, a, 2), input(t, b, 2)}
	v := newView(runs, chartsOf(runs), Options{Now: rundirtest.Noon})
	if d := cmp.Diff([]Row{{"optimizer.lr", []string{"0.125", "0.25"}, true}}, v.Differences); d != "" {
		t.Error(d)
	}
	for _, r := range v.Overview {
		if want := r.Label == "directory"; r.Differs != want {
			t.Errorf("%s: %q", r.Label, r.Cells)
		}
	}
	if !strings.Contains(write(t, runs...), "2 runs compared") {
		t.Error("no title")
	}
}

// Whatever a run contains is text on its page.
func TestHostileTextIsText(t *testing.T) {
	const evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\"'`${x}{{.}}"
	r := rundirtest.New(t, afero.NewMemMapFs(), "/runs", "<b>bold")
	r.Write(r.Dir.Config(), fmt.Appendf(nil, "[run]\nname = %q\n[\"<i>\"]\nx = 1\n", "</script><script>alert(1)</script>"))
	r.Tell(&event.RunStarted{Name: evil, Device: evil, Version: evil, DeviceReason: evil}, &event.PluginStarted{Name: evil, Path: evil}, &event.DatasetOpened{Plugin: evil, Notice: evil},
		&event.Warning{Source: evil, Message: evil + strings.Repeat("x", 1<<20)}, &event.Elastic{Cause: evil}, &event.RankFailed{Host: evil, Message: evil, LastLines: []string{evil}},
		&event.CheckpointSaved{Path: evil, Best: true}, &event.RunDone{Status: "ok", Message: evil})
	r.Steps(1, 10)
	e := &event.Evaluation{Classes: []string{evil}, Confusion: [][]int64{{1}}, EvalMetrics: event.EvalMetrics{PerClass: []event.ClassMetrics{{Name: evil}}}, Worst: []event.WorstSample{{Split: evil}, {Split: "test", Picture: rundirtest.Picture(t, 4)}}}
	if err := r.Dir.WriteEvaluation(r.FS, e); err != nil {
		t.Fatal(err)
	}
	text := write(t, input(t, r, 1))
	for _, bad := range []string{"<script>alert", "<img src=x", "<b>bold", "<i>", "\x1b"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	if n := strings.Count(text, "</script>"); n != 3 {
		t.Errorf("%d scripts end, want 3", n)
	}
	if len(text) > 1<<20 {
		t.Errorf("%d bytes", len(text))
	}
}

// The best evaluation is shown beside the last one, and samples that are no images as text.
func TestPageOfEvaluations(t *testing.T) {
	r := rundirtest.New(t, afero.NewMemMapFs(), "/runs", "a")
	for i, accuracy := range []event.Number{0.5, 0.75, 0.7} {
		e := &event.Evaluation{Step: 10 * (i + 1), Samples: 4, Loss: 0.5, Accuracy: &accuracy, Worst: []event.WorstSample{{Split: "test", Index: int64(i), Input: fmt.Sprintf("%d 0.25 …", i)}}}
		if err := r.Dir.WriteEvaluation(r.FS, e); err != nil {
			t.Fatal(err)
		}
	}
	text := write(t, input(t, r, 1))
	for _, want := range []string{"Last evaluation: after step 30", "Loss 0.5, accuracy 70.00 %, 4 samples", "Best evaluation: after step 20", "accuracy 75.00 %", `<td class="text">2 0.25 …</td>`, `<td class="text">1 0.25 …</td>`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(text, "0 0.25") {
		t.Error("an evaluation that is neither the last nor the best is shown")
	}
}

// A page that follows its run gets what was added, and with what it has, that is what a new page gets.
func TestPagesFollowByWhatWasAdded(t *testing.T) {
	r := rundirtest.New(t, afero.NewMemMapFs(), "/runs", "a")
	reader := rundir.Open(r.FS, r.Dir)
	var page data
	var have []byte
	for i, steps := range [][2]int{{1, 1}, {2, 9}, {10, 9}, {5, 7}, {10, 2048}, {2049, 2049}, {2050, 3000}, {3003, 3004}, {3005, 3005}, {2900, 3100}, {3101, 9000}, {9001, 9002}} {
		r.Steps(steps[0], steps[1])
		if i%3 == 1 {
			r.Tell(&event.EvalDone{Step: steps[1], Loss: 1 / float64(i), Accuracy: -1})
		}
		if _, err := reader.Update(); err != nil {
			t.Fatal(err)
		}
		in := []Input{Trace(reader, 1)}
		whole, added := dataOf(t, in, ""), dataOf(t, in, string(have))
		again := i == 3 || i == 5 || i == 9 // steps were repeated, or intervals joined
		if i > 0 && !again && steps[1]-steps[0] < 10 && len(added.Runs[0].Step) > 10 {
			t.Errorf("%v: %d points were sent again", steps, len(added.Runs[0].Step))
		}
		page = merged(page, added)
		if d := cmp.Diff(whole.Runs, page.Runs, cmpopts.EquateNaNs(), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(curve{}, "From"), cmpopts.IgnoreFields(evals{}, "From")); d != "" {
			t.Fatalf("%v: %s", steps, d)
		}
		var err error
		if have, err = json.Marshal(added.Have); err != nil {
			t.Fatal(err)
		}
	}
}

func dataOf(t *testing.T, in []Input, have string) (d data) {
	t.Helper()
	b, err := Data(in, have)
	if err == nil {
		err = json.Unmarshal(b, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (c *column) UnmarshalJSON(b []byte) error {
	var numbers []*float64
	err := json.Unmarshal(b, &numbers)
	*c = make(column, len(numbers))
	for i, v := range numbers {
		if (*c)[i] = math.NaN(); v != nil {
			(*c)[i] = *v
		}
	}
	return err
}

// merged is what assets/page.js makes of new data.
func merged(old, added data) data {
	if len(old.Runs) == 0 {
		return added
	}
	was, run := old.Runs[0], &added.Runs[0]
	n, m := run.From, run.Evals.From
	for id, s := range run.Series {
		before := was.Series[id]
		if n > 0 && (s.Least != nil || before.Least != nil) {
			if s.Least == nil {
				s.Least, s.Greatest = s.Mean, s.Mean
			}
			if before.Least == nil {
				before.Least, before.Greatest = before.Mean, before.Mean
			}
			s.Least, s.Greatest = slices.Concat(before.Least[:n], s.Least), slices.Concat(before.Greatest[:n], s.Greatest)
		}
		if n > 0 {
			s.Mean = slices.Concat(before.Mean[:n], s.Mean)
		}
		run.Series[id] = s
	}
	run.Step, run.Time = slices.Concat(was.Step[:n], run.Step), slices.Concat(was.Time[:n], run.Time)
	e := &run.Evals
	e.Step, e.Time = slices.Concat(was.Evals.Step[:m], e.Step), slices.Concat(was.Evals.Time[:m], e.Time)
	e.Loss, e.Accuracy = slices.Concat(was.Evals.Loss[:m], e.Loss), slices.Concat(was.Evals.Accuracy[:m], e.Accuracy)
	return added
}

// Long runs, and many of them, stay within the limit of a page.
func TestPagesAreSmall(t *testing.T) {
	fsys := afero.NewMemMapFs()
	var runs []Input
	for range 8 {
		r := full(t, fsys, "long", 5000)
		r.Timeline(8, 400)
		e := &event.Evaluation{}
		for i := range 64 {
			e.Worst = append(e.Worst, event.WorstSample{Split: "test", Index: int64(i), Picture: rundirtest.Picture(t, 128)})
		}
		if err := r.Dir.WriteEvaluation(r.FS, e); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, input(t, r, 8))
	}
	if n := len(write(t, runs...)); n > MostBytes {
		t.Errorf("%d bytes, at most %d are allowed", n, MostBytes)
	}
}

// The curve of a resumed run has the steps of the run before it up to the checkpoint, and no others.
func TestCurvesOfResumedRuns(t *testing.T) {
	fsys := afero.NewMemMapFs()
	first := rundirtest.New(t, fsys, "/runs", "a")
	first.Tell(&event.RunStarted{Name: "a"})
	first.Steps(1, 14)
	first.Tell(&event.EvalDone{Step: 14, Loss: 1})
	second := rundirtest.New(t, fsys, "/runs", "a")
	second.Tell(&event.RunStarted{Name: "a", Continues: first.Dir.Path}, &event.CheckpointLoaded{Step: 10})
	second.Steps(11, 20)
	c, _ := curveOf(input(t, second, 1).Run, 1000, had{})
	var want []int
	for step := 1; step <= 20; step++ {
		want = append(want, step)
	}
	if d := cmp.Diff(want, c.Step); d != "" {
		t.Error(d)
	}
	for i, step := range c.Step {
		if got := c.Series["loss"].Mean[i]; math.Abs(got-rundirtest.Loss(step)) > 1e-9 {
			t.Errorf("step %d: loss %v", step, got)
		}
		if i > 0 && c.Time[i] <= c.Time[i-1] {
			t.Errorf("step %d ended after %v s, step %d after %v s", step, c.Time[i], step-1, c.Time[i-1])
		}
	}
	if len(c.Evals.Step) != 0 || len(c.Marks) != 1 || c.Marks[0].Kind != "resume" {
		t.Errorf("%+v %+v", c.Evals, c.Marks)
	}
}

// Spikes of long runs are in the data of the charts, which is JSON without NaN.
func TestDataKeepsSpikes(t *testing.T) {
	r := rundirtest.New(t, afero.NewMemMapFs(), "/runs", "a")
	r.Tell(&event.RunStarted{Name: "a"})
	r.Steps(1, 9000)
	r.Tell(&event.StepDone{Step: 9001, LossMean: 1e6, Accuracy: -1}, &event.StepDone{Step: 9002, LossMean: math.NaN(), Accuracy: -1})
	r.Steps(9003, 20000)
	b, err := Data([]Input{input(t, r, 1)}, "")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Charts []struct{ ID string }
		Runs   []struct {
			Width  int
			Step   []int
			Series map[string]struct{ Mean, Least, Greatest []*float64 }
		}
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	loss := got.Runs[0].Series["loss"]
	found := false
	for i, v := range loss.Greatest {
		found = found || v != nil && *v == 1e6 && got.Runs[0].Step[i] >= 9001 && got.Runs[0].Step[i]-got.Runs[0].Width < 9001
	}
	if !found || got.Runs[0].Width != 16 || len(loss.Mean) != len(got.Runs[0].Step) {
		t.Errorf("width %d, %d points, spike %v", got.Runs[0].Width, len(loss.Mean), found)
	}
	if d := cmp.Diff("loss", got.Charts[0].ID); d != "" {
		t.Error(d)
	}
	if n, err := json.Marshal(column{math.NaN(), 1.23456789, math.Inf(1)}); string(n) != "[null,1.23457,null]" || err != nil {
		t.Errorf("%s %v", n, err)
	}
}

// BenchmarkServed is what a page that follows a run of 2000 steps costs with every change: what its charts are
// drawn from, and now and then its text.
func BenchmarkServed(b *testing.B) {
	r := rundirtest.New(b, afero.NewMemMapFs(), "/runs", "a")
	r.Steps(1, 2000)
	in, err := Read(r.FS, r.Dir, 1)
	if err != nil {
		b.Fatal(err)
	}
	have, err := json.Marshal(chartData([]Input{in}, "").Have)
	if err != nil {
		b.Fatal(err)
	}
	for name, serve := range map[string]func() error{
		"everything": func() error { _, err := Data([]Input{in}, ""); return err },
		"added":      func() error { _, err := Data([]Input{in}, string(have)); return err },
		"text":       func() error { return Write(io.Discard, []Input{in}, Options{Script: "x", Text: true}) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := serve(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReport is what trainctl report does with a run of a million steps: it reads the run and writes the page.
func BenchmarkReport(b *testing.B) {
	r := rundirtest.New(b, afero.NewOsFs(), b.TempDir(), "a")
	for from := 1; from < 1_000_000; from += 10_000 { // piece by piece: they take 250 MB
		r.Steps(from, from+9999)
	}
	r.Timeline(8, 400)
	var page bytes.Buffer
	began := processorTime()
	for b.Loop() {
		in, err := Read(r.FS, r.Dir, 1)
		page.Reset()
		if err == nil {
			err = Write(&page, []Input{in}, Options{Version: "test", Now: rundirtest.Noon})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if page.Len() > MostBytes {
		b.Errorf("%d bytes, at most %d are allowed", page.Len(), MostBytes)
	}
	b.ReportMetric(float64(page.Len()), "page-bytes")
	b.ReportMetric((processorTime()-began).Seconds()/float64(b.N), "cpu-s/op")
}

// processorTime is what this process has used on all cores, which does not depend on other processes.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail for the process itself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A run that wrote nothing yet has a page.
func TestPageOfAnEmptyRun(t *testing.T) {
	text := write(t, input(t, rundirtest.New(t, afero.NewMemMapFs(), "/runs", "new"), 1))
	if !strings.Contains(text, "No steps were recorded") {
		t.Error("the page does not say that there are no steps")
	}
}

// A timeline of which no rank is shown is left out.
func TestTimelineOfHiddenRanks(t *testing.T) {
	r := full(t, afero.NewMemMapFs(), "a", 20)
	in := input(t, r, 1)
	in.Trace.Ranks = append(make([][]timeline.Slice, mostRanks), in.Trace.Ranks[0])
	if text := write(t, in); !strings.Contains(text, "There is no timeline") {
		t.Error("a timeline without rows")
	}
}
