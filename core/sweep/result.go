package sweep

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/trainctl/trainctl/core/base/durable"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/page"
)

// Result is what a sweep has found so far.
type Result struct {
	Dir    string   `json:"folder"`
	Metric string   `json:"metric"`
	Goal   string   `json:"goal"`
	Report string   `json:"report,omitempty"` // file of the page; "": none
	Trials []*Trial `json:"trials"`           // best first; those without a value last
}

// Result sorts the trials.
func (s *Sweep) Result() *Result {
	r := &Result{Dir: s.Dir, Metric: s.File.Metric, Goal: s.File.Goal, Trials: slices.Clone(s.state.Trials)}
	of := func(t *Trial) float64 {
		if t.Value == nil {
			return math.Inf(1)
		}
		return cost(float64(*t.Value), r.Goal)
	}
	slices.SortStableFunc(r.Trials, func(a, b *Trial) int { return cmp.Compare(of(a), of(b)) })
	return r
}

// Failed is the number of trials that failed.
func (r *Result) Failed() int { return with(r.Trials, func(s Status) bool { return s == Failed }) }

// with is how many trials have a status for which is holds.
func with(trials []*Trial, is func(Status) bool) int {
	list := slices.Clone(trials)
	return len(trials) - len(slices.DeleteFunc(list, func(t *Trial) bool { return is(t.Status) }))
}

// WriteReport writes a page that compares the best trials, at most most of them, if there is one with a value.
func (s *Sweep) WriteReport(r *Result, most int, o page.Options) error {
	var runs []page.Input
	best := r.Trials[:min(most, len(r.Trials))]
	for _, t := range best {
		if t.Value == nil {
			break
		}
		dir, err := event.OpenRunDir(s.FS, t.Run)
		if err != nil {
			return err
		}
		in, err := page.Read(s.FS, dir, len(best))
		if err != nil {
			return err
		}
		runs = append(runs, in)
	}
	if len(runs) == 0 {
		return nil
	}
	var b bytes.Buffer
	if err := page.Write(&b, runs, o); err != nil {
		return err
	}
	path := filepath.Join(s.Dir, "report.html")
	if err := durable.Replace(s.FS, path, b.Bytes()); err != nil {
		return fmt.Errorf("report of the sweep: %w", err)
	}
	r.Report = path
	return nil
}

// Text writes the table: a line for each trial, with the settings that differ between trials.
func (r *Result) Text(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	keys := r.varied()
	head := append([]string{"TRIAL", strings.ToUpper(r.Metric), "STEP", "STATUS", "TIME"}, keys...)
	fmt.Fprintln(tw, strings.Join(head, "\t"))
	for _, t := range r.Trials {
		line := []string{strconv.Itoa(t.Number), "–", "–", string(t.Status), "–"}
		if t.Value != nil {
			line[1], line[2] = number(float64(*t.Value)), strconv.Itoa(t.Step)
		}
		if t.Seconds > 0 {
			line[4] = time.Duration(t.Seconds * float64(time.Second)).Round(100 * time.Millisecond).String()
		}
		for _, s := range t.Settings {
			if slices.Contains(keys, s.Key) {
				line = append(line, s.Value)
			}
		}
		fmt.Fprintln(tw, strings.Join(line, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, t := range r.Trials {
		if t.Reason != "" {
			if _, err := fmt.Fprintf(w, "trial %d %s: %s\n", t.Number, t.Status, t.Reason); err != nil {
				return err
			}
		}
	}
	if r.Report == "" {
		return nil
	}
	_, err := fmt.Fprintln(w, "report: "+r.Report)
	return err
}

// varied are the keys that have different values, in the order of the file.
func (r *Result) varied() (keys []string) {
	for i, s := range r.Trials[0].Settings {
		if slices.ContainsFunc(r.Trials, func(t *Trial) bool { return t.Settings[i].Value != s.Value }) {
			keys = append(keys, s.Key)
		}
	}
	return keys
}

// number writes a value of the metric as a table shows it.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 5, 64) }
