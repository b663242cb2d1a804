package sweep

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/train/metric"
)

// File is a sweep as its TOML file describes it.
type File struct {
	Config   string         `toml:"config"`      // path of the configuration
	Metric   string         `toml:"metric"`      // what trials are compared by: see metrics
	Goal     string         `toml:"goal"`        // "min" or "max"; "": as usual for the metric
	Parallel int            `toml:"parallel"`    // trials at once; 0: as many as there are cores or GPUs for
	Grid     map[string]any `toml:"grid"`        // lists of values, all combinations of which are tried
	Random   map[string]any `toml:"random"`      // trials, seed, and what values are drawn from
	Median   Median         `toml:"median_stop"` // without this table no trial is stopped

	Path string `toml:"-"`

	doc        *config.Document
	parameters []parameter
	trials     int // of a random sweep
	seed       uint64
	stops      bool // [median_stop] is given
}

// Name is the sweep's name: that of its file.
func (f *File) Name() string {
	base := filepath.Base(f.Path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// metrics are what trials can be compared by, with the usual goals.
var metrics = map[string]string{"eval.loss": "min", "eval.accuracy": "max", "train.loss": "min", "train.samples_per_sec": "max"}

// evaluated reports whether evaluations measure the metric, so that it is known before a trial ends.
func (f *File) evaluated() bool { return strings.HasPrefix(f.Metric, "eval.") }

// mostTrials is the maximum number of trials; more are treated as a typo.
const mostTrials = 10_000

// ReadFile reads and checks a sweep. The error is a [*config.Error] with all problems of the file, or
// that of the file system.
func ReadFile(fsys afero.Fs, path string) (*File, error) {
	text, err := afero.ReadFile(fsys, path)
	if err != nil {
		return nil, fmt.Errorf("reading the sweep: %w; fix: give the path of the TOML file that describes it", err)
	}
	f := &File{Path: path, Metric: "eval.loss", Median: Median{MinEvaluations: 1, MinTrials: 3}}
	if f.doc, err = config.ParseDocument(path, string(text), f); err != nil {
		return nil, err
	}
	f.stops = f.doc.Given("median_stop")
	var l usererr.List
	f.problems(&l)
	if _, err := fsys.Stat(f.Config); f.Config != "" && f.Config != "-" && err != nil {
		l.Addf("config", "relative paths start at the working directory", "%v", err)
	}
	f.readParameters(&l)
	if err := f.doc.Check(l); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) problems(l *usererr.List) {
	usual, known := metrics[f.Metric]
	switch {
	case !known:
		l.Addf("metric", "use eval.loss, eval.accuracy, train.loss or train.samples_per_sec", "unknown metric %q", f.Metric)
	case f.Goal == "":
		f.Goal = usual
	case f.Goal != "min" && f.Goal != "max":
		l.Addf("goal", `use "min" or "max"`, "unknown goal %q", f.Goal)
	}
	if f.Config == "" {
		l.Addf("config", `add config = "FILE" at the top of the file, with a path from the working directory`, "missing: there is nothing to train")
	}
	if f.Config == "-" {
		l.Addf("config", "write it to a file", "every trial reads the configuration, and standard input can be read once")
	}
	if f.Parallel < 0 {
		l.Addf("parallel", "1 or more; remove it to fill the cores of this machine", "%d trials cannot run", f.Parallel)
	}
	if f.stops && known && !f.evaluated() {
		l.Addf("median_stop", `use metric = "eval.loss" or "eval.accuracy", or remove the table`, "trials are stopped after evaluations, which do not measure %s", f.Metric)
	}
	if f.Median.MinEvaluations < 1 {
		l.Addf("median_stop.min_evaluations", "1 or more", "is %d: a trial cannot be compared before its first evaluation", f.Median.MinEvaluations)
	}
	if f.Median.MinTrials < 1 {
		l.Addf("median_stop.min_trials", "1 or more", "%d trials have no median", f.Median.MinTrials)
	}
	grid, random := f.doc.Given("grid"), f.doc.Given("random")
	if grid == random {
		l.Addf("", "add one of the tables [grid], with lists of values, and [random], with ranges", "a sweep is either a grid or random")
	}
}

// readParameters reads [grid] or [random].
func (f *File) readParameters(l *usererr.List) {
	table := "grid"
	if f.doc.Given("random") {
		table = "random"
	}
	for _, e := range f.doc.Entries(table) {
		switch {
		case table == "random" && e.Key == "trials":
			f.trials = int(count(l, e, 1))
		case table == "random" && e.Key == "seed":
			f.seed = uint64(count(l, e, 0))
		case slices.Contains([]string{"run.name", "run.dir"}, e.Key):
			l.Addf(e.Path, "remove it; the sweep gives each trial a name and a directory of its own", "cannot be varied")
		default:
			p := parameter{Entry: e}
			if p.read(l, table == "random") {
				f.parameters = append(f.parameters, p)
			}
		}
	}
	if table == "random" && !f.doc.Given("random.trials") {
		l.Addf("random.trials", "add trials = 20, or another number, to [random]", "missing: the number of trials to draw")
	}
	n := f.trials
	if table == "grid" {
		n = f.combinations()
	}
	if n > mostTrials {
		l.Addf(table, "give fewer values, or draw some of them with [random]", "more than %d trials", mostTrials)
	}
	if len(f.parameters) == 0 && len(*l) == 0 {
		l.Addf(table, `add a key of the configuration, such as optimizer.lr = [0.1, 0.01]`, "has no key to vary")
	}
}

// count is an entry that is an integer of at least least.
func count(l *usererr.List, e config.Entry, least int64) int64 {
	n, ok := e.Value.(int64)
	if !ok || n < least {
		l.Addf(e.Path, fmt.Sprintf("%d or more", least), "want an integer, got %s", config.FormatValue(e.Value))
		return max(1, least)
	}
	return n
}

// combinations is the number of trials of a grid; of too many, more than mostTrials.
func (f *File) combinations() int {
	n := 1
	for _, p := range f.parameters {
		n = min(n*len(p.values), mostTrials+1)
	}
	return n
}

// checkTrials checks the configuration of every trial. A problem of a value is reported where the sweep's
// file gives it.
func (f *File) checkTrials(trials []*Trial, check func(set []string) (*config.Config, error), m *Machine) error {
	var l usererr.List
	for _, t := range trials {
		c, err := check(t.sets())
		var bad *config.Error
		switch {
		case errors.As(err, &bad):
			f.blame(&l, t, bad.Diagnostics)
		case err != nil:
			return err
		default:
			f.suits(&l, c)
			t.use(c)
			m.fits(&l, f, t)
		}
	}
	return f.doc.Check(l)
}

// blame reports problems of a trial's configuration.
func (f *File) blame(l *usererr.List, t *Trial, list []config.Diagnostic) {
	for _, d := range list {
		at := slices.IndexFunc(t.Settings, func(s Setting) bool {
			return d.File == "--set" && strings.HasPrefix(d.Snippet, s.Key+"=")
		})
		switch {
		case d.Severity != config.SeverityError:
		case at < 0:
			f.doc.Include([]config.Diagnostic{d})
		case strings.HasPrefix(d.Summary, "unknown key"):
			l.Addf(t.Settings[at].key, d.Help, "%s", d.Summary)
		default:
			l.Addf(t.Settings[at].value, d.Help, "%s", d.Summary)
		}
	}
}

// suits refuses what a sweep cannot do with a configuration that is correct by itself.
func (f *File) suits(l *usererr.List, c *config.Config) {
	if f.evaluated() && c.Train.EvalEvery == 0 {
		l.Addf("metric", "set train.eval_every to 1, or use train.loss", "%s needs evaluations, and train.eval_every is 0", f.Metric)
	}
	if f.Metric == "eval.accuracy" && !c.Eval.Has(metric.Accuracy) {
		l.Addf("metric", `add "accuracy" to eval.metrics`, "%s is not measured", f.Metric)
	}
	if c.Launch.Nnodes.Int() > 1 || c.Launch.UsesEtcd() {
		l.Addf("config", "set launch.nnodes to 1 and launch.rdzv_backend to \"builtin\"", "trials run on one machine, and this configuration needs several")
	}
	if c.Metrics.Prometheus != "" && f.Parallel != 1 {
		l.Addf("config", "remove metrics.prometheus, or set parallel = 1", "trials that run at once cannot listen at the same address %s", c.Metrics.Prometheus)
	}
}
