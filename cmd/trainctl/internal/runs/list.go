package runs

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/page"
	"github.com/trainctl/trainctl/core/report/rundir"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// listed is a run as "runs ls" prints it.
type listed struct {
	ID      string     `json:"id"`
	Path    string     `json:"path"`
	Status  string     `json:"status"`
	Began   *time.Time `json:"began,omitempty"`
	Seconds float64    `json:"seconds"`
	Step    int        `json:"step"`
	Steps   int        `json:"steps,omitempty"` // planned
	Ranks   int        `json:"ranks,omitempty"`

	Loss     *event.Number `json:"loss,omitempty"`          // of training
	Eval     *event.Number `json:"eval_loss,omitempty"`     // of the last evaluation
	Accuracy *event.Number `json:"eval_accuracy,omitempty"` // a fraction
	Speed    event.Number  `json:"samples_per_sec,omitempty"`

	rundir.Labels
	Problems []string `json:"problems,omitempty"`

	facts []string // as in page.Facts
}

func listCommand(base *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls [WORD]...",
		Aliases: []string{"list"},
		Short:   "List runs, newest first",
		Long: `List the runs in the folder of all runs, newest first. Of several words, those runs are
listed whose line has all of them, in upper or lower case: a name, a status, a tag.`,
		Example: "  trainctl runs ls\n  trainctl runs ls mnist failed --json",
	}
	show := cli.JSONFlag(cmd, "one JSON array")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		list, err := list(*base, args, time.Now())
		if err != nil {
			return err
		}
		return show(list, func(w io.Writer) error { return listTable(w, list) })
	}
	return cmd
}

// list returns the runs under base whose lines have all words.
func list(base string, words []string, now time.Time) ([]listed, error) {
	dirs, err := rundir.List(checkpoint.OsFS(), base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Usagef("%s does not exist; fix: give the folder of all runs with --run-dir", base)
	}
	if err != nil {
		return nil, err
	}
	read, err := rundir.InParallel(dirs, func(d event.RunDir) (*rundir.Run, error) { return rundir.ReadBrief(checkpoint.OsFS(), d) })
	if err != nil {
		return nil, err
	}
	runs := []listed{}
	for _, r := range read {
		if l := listedOf(r, now); l.matches(words) {
			runs = append(runs, l)
		}
	}
	slices.SortStableFunc(runs, func(a, b listed) int {
		return cmp.Or(began(b).Compare(began(a)), cmp.Compare(b.ID, a.ID))
	})
	return runs, nil
}

func began(l listed) time.Time {
	if l.Began == nil {
		return time.Time{}
	}
	return *l.Began
}

func listedOf(r *rundir.Run, now time.Time) listed {
	l := listed{
		ID: r.ID, Path: r.Dir.Path, Status: r.Status(now), Seconds: max(0, r.Elapsed().Seconds()), Step: r.LastStep(), Steps: r.Steps(),
		Labels: r.Labels, Problems: r.Problems, facts: page.Facts(r),
	}
	if !r.Began.IsZero() {
		l.Began = &r.Began
	}
	if r.Started != nil {
		l.Ranks = r.Started.WorldSize
	}
	if c := r.Curves.Total.Cells; c[rundir.Loss].N > 0 {
		l.Loss = finite(c[rundir.Loss].Last)
		l.Speed = event.Number(c[rundir.SamplesPerSec].Last)
	}
	if s := r.Summary; s != nil {
		l.Loss, l.Speed, l.Step = finite(float64(s.Train.Loss)), s.Train.SamplesPerSec, s.Steps
	}
	if n := len(r.Evals); n > 0 {
		e := r.Evals[n-1]
		if l.Eval = finite(e.Loss); e.Accuracy >= 0 {
			l.Accuracy = finite(e.Accuracy)
		}
	}
	return l
}

// finite returns nil for a value that JSON cannot represent.
func finite(v float64) *event.Number {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	n := event.Number(v)
	return &n
}

// line is what the table shows of a run.
func (l *listed) line() []string {
	return append(append([]string{l.ID, l.Status}, l.facts...), strings.Join(l.Tags, ", "), l.Note)
}

func (l *listed) matches(words []string) bool {
	line := strings.ToLower(strings.Join(l.line(), "\n"))
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, strings.ToLower(w)) })
}

func listTable(w io.Writer, list []listed) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	cells(tw, strings.Split(strings.ToUpper(strings.Join(append(append([]string{"run", "status"}, page.FactNames...), "tags", "note"), "\n")), "\n")...)
	for _, l := range list {
		cells(tw, l.line()...)
	}
	return tw.Flush()
}
