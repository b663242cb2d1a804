package page

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/base/decimal"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/rundir"
)

// view is what assets/page.html shows.
type view struct {
	Title   string
	Made    string
	Version string
	Live    bool
	Policy  string
	CSS     template.CSS
	Scripts []template.JS
	Data    template.JS

	Runs        []runView
	Overview    []Row
	Differences []Row
	Charts      []chartView
}

// Several reports whether runs are compared.
func (v *view) Several() bool { return len(v.Runs) > 1 }

// runView is a run in the sections that show one run after the other.
type runView struct {
	*rundir.Run
	Number   int // from 0, which selects its colour
	State    string
	Shares   []share
	Layers   []layerView
	Note     string // about the time outside of steps
	Spent    []spent
	Ranks    []rankView
	Timeline int // slices of the ranks that are shown
	Notes    []string
	Settings []setting
	Details  []detail // of evaluations, the newest first
}

// detail is an evaluation in detail.
type detail struct {
	*event.Evaluation
	Which  string
	Matrix *matrix
	Worst  []worst
}

// details are the last evaluation and, if it is another one, the best, with pictures of so many bytes in base64.
func details(r *rundir.Run, room int) (out []detail) {
	last, best := r.Evaluation, r.BestEval
	if last == nil {
		return nil
	}
	out = []detail{{Evaluation: last, Which: "Last evaluation"}}
	switch {
	case best != nil && best.Step == last.Step:
		out[0].Which = "Last and best evaluation"
	case best != nil:
		out = append(out, detail{Evaluation: best, Which: "Best evaluation"})
	}
	for i := range out {
		out[i].Matrix, out[i].Worst = newMatrix(out[i].Evaluation), worstOf(out[i].Evaluation, room/len(out))
	}
	return out
}

// rankView is a rank beside the others.
type rankView struct {
	Rank    int
	Memory  string
	Sum     string
	Slowest bool
}

// Slow reports whether the others wait for a rank.
func (v runView) Slow(rank int) bool { return slow(v.Summary, rank) }

func slow(s *event.Summary, rank int) bool {
	return s != nil && s.Comm.SlowestRank != nil && *s.Comm.SlowestRank == rank
}

func newView(runs []Input, charts []chart, o Options) *view {
	v := &view{Made: o.Now.UTC().Format("2006-01-02 15:04:05 MST"), Version: o.Version, Live: o.Script != ""}
	var ids []string
	for i, in := range runs {
		ids = append(ids, in.Run.ID)
		v.Runs = append(v.Runs, newRunView(i, in, o))
		v.Runs[i].Details = details(in.Run, pictureBytes/len(runs))
	}
	v.Title = rundir.Clean(strings.Join(ids, " · "), 200)
	v.Overview = overview(v.Runs)
	v.Differences = differences(v.Runs)
	for _, c := range charts {
		v.Charts = append(v.Charts, newChartView(c, v.Runs))
	}
	return v
}

func newRunView(i int, in Input, o Options) runView {
	r := in.Run
	v := runView{Run: r, Number: i, State: r.Status(o.Now), Shares: stepShares(r), Layers: layers(r)}
	evaluating, saving := pauses(r)
	v.Note = fmt.Sprintf("Outside of steps: evaluations %s, pauses for checkpoints %s.", seconds(evaluating), seconds(saving))
	v.Spent, _ = spentByRank(in.Trace)
	if in.Trace != nil {
		v.Notes = slices.Clone(in.Trace.Notes)
		for _, s := range in.Trace.Ranks[:min(len(in.Trace.Ranks), mostRanks)] {
			v.Timeline += len(s)
		}
		if n := len(in.Trace.Ranks); n > mostRanks {
			v.Notes = append(v.Notes, fmt.Sprintf("the timeline shows %d of %d ranks", mostRanks, n))
		}
	}
	v.Ranks = rankViews(r)
	v.Settings = settings(r, o)
	return v
}

func rankViews(r *rundir.Run) (out []rankView) {
	s := r.Summary
	if s == nil {
		return nil
	}
	for rank := range max(len(s.Memory.PeakRSSBytes), len(s.ParamsSHA256)) {
		v := rankView{Rank: rank, Slowest: slow(s, rank)}
		if rank < len(s.Memory.PeakRSSBytes) {
			v.Memory = size(s.Memory.PeakRSSBytes[rank])
		}
		if rank < len(s.ParamsSHA256) {
			v.Sum = s.ParamsSHA256[rank]
		}
		out = append(out, v)
	}
	return out
}

// facts are the lines of the overview. Each returns "" for a run that does not have it.
var facts = []struct {
	label string
	of    func(r *runView) string
}{
	{"status", func(r *runView) string { return r.State }},
	{"tags", func(r *runView) string { return strings.Join(r.Labels.Tags, ", ") }},
	{"note", func(r *runView) string { return r.Labels.Note }},
	{"started", func(r *runView) string { return moment(r.Began) }},
	{"continues", func(r *runView) string { return continued(r.Run) }},
	{"duration", func(r *runView) string { return seconds(r.Elapsed().Seconds()) }},
	{"steps", func(r *runView) string { return progress(r.Run) }},
	{"ranks", func(r *runView) string { return ranksText(r.Run) }},
	{"model parameters", func(r *runView) string {
		return planned(r.Run, func(p *event.PlanMade) string { return decimal.Group(p.Parameters) })
	}},
	{"data", func(r *runView) string { return dataText(r.Run) }},
	{"training loss", func(r *runView) string { return lastLoss(r.Run) }},
	{"last evaluation", func(r *runView) string { return evalText(r.Run) }},
	{"best checkpoint", func(r *runView) string { return bestText(r.Run) }},
	{"throughput", func(r *runView) string { return speedText(r.Run) }},
	{"step time", func(r *runView) string { return stepText(r.Run) }},
	{"time to first step", func(r *runView) string {
		return summed(r.Run, func(s *event.Summary) string { return finite(s.Time.ToFirstStepS, seconds) })
	}},
	{"exposed communication", func(r *runView) string {
		return summed(r.Run, func(s *event.Summary) string { return finite(s.Comm.ExposedMSP50, millis) })
	}},
	{"imbalance between ranks", func(r *runView) string {
		return summed(r.Run, func(s *event.Summary) string { return finite(s.Comm.ImbalanceMSP50, millis) })
	}},
	{"slowest rank", func(r *runView) string {
		return summed(r.Run, func(s *event.Summary) string {
			if s.Comm.SlowestRank == nil {
				return "none stands out"
			}
			return fmt.Sprint("rank ", *s.Comm.SlowestRank)
		})
	}},
	{"peak memory of a rank", func(r *runView) string { return memoryText(r.Run) }},
	{"planned memory of a rank", func(r *runView) string {
		return planned(r.Run, func(p *event.PlanMade) string { return size(p.MemoryBytes) })
	}},
	{"buckets", func(r *runView) string { return bucketText(r.Run) }},
	{"reduced per rank and step", func(r *runView) string {
		return planned(r.Run, func(p *event.PlanMade) string { return size(p.BytesPerStep) })
	}},
	{"restarts", func(r *runView) string { return restartText(r.Run) }},
	{"parameters of all ranks", func(r *runView) string { return summed(r.Run, sameParameters) }},
	{"trainctl", func(r *runView) string { return started(r.Run, func(s *event.RunStarted) string { return s.Version }) }},
	{"host of rank 0", func(r *runView) string { return r.Host }},
	{"directory", func(r *runView) string { return r.Dir.Path }},
}

// FactNames are the facts about a run that a list shows.
var FactNames = []string{"started", "duration", "steps", "training loss", "last evaluation", "throughput", "ranks"}

// Facts are the values of FactNames.
func Facts(r *rundir.Run) (out []string) {
	v := runView{Run: r}
	for _, name := range FactNames {
		for _, f := range facts {
			if f.label == name {
				out = append(out, rundir.Clean(f.of(&v), 300))
			}
		}
	}
	return out
}

func overview(runs []runView) (out []Row) {
	for _, f := range facts {
		line := Row{Label: f.label}
		some := false
		for i := range runs {
			text := rundir.Clean(f.of(&runs[i]), 2000)
			some = some || text != ""
			line.Cells = append(line.Cells, text)
		}
		if some {
			line.Differs = differs(line.Cells)
			out = append(out, line)
		}
	}
	return out
}

func differs(cells []string) bool {
	return slices.ContainsFunc(cells, func(c string) bool { return c != cells[0] })
}

// setting is a key of a configuration.
type setting struct {
	Key, Value, Default string
	Changed             bool
}

// differences are the settings in which runs differ.
func differences(runs []runView) (out []Row) {
	if len(runs) < 2 {
		return nil
	}
	var keys []string
	known := map[string]bool{}
	values := make([]map[string]string, len(runs))
	for i, r := range runs {
		values[i] = map[string]string{}
		for _, s := range r.Settings {
			values[i][s.Key] = s.Value
			if !known[s.Key] {
				known[s.Key] = true
				keys = append(keys, s.Key)
			}
		}
	}
	for _, key := range keys {
		line := Row{Label: key, Differs: true}
		for i := range runs {
			line.Cells = append(line.Cells, values[i][key])
		}
		if differs(line.Cells) {
			out = append(out, line)
		}
	}
	return out
}
