package rundir

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"

	"github.com/trainctl/trainctl/core/report/event"
)

// Mark is something that happened to a run between its steps.
type Mark struct {
	Step    int     // done before it; 0: none
	Seconds float64 // since Run.Began
	Rank    int     // that reported it; event.Launcher for the launcher
	Kind    string  // "restart", "resume", "membership", "replaced", "failure", "warning", "early stop", "end", "note"
	Text    string
}

// take adds an event.
func (r *Run) take(e *entry, lines *event.Lines) {
	if e.bad {
		r.Lost++
		return
	}
	at := e.rec.Time
	if r.Began.IsZero() || at.Before(r.Began) && !at.IsZero() {
		r.Began = at
	}
	if at.After(r.Ended) {
		r.Ended = at
	}
	if e.rec.Event == nil {
		if e.rec.Rank <= 0 {
			r.Curves.add(&e.step, at.Sub(r.Began).Seconds())
		}
		return
	}
	r.state(e.rec)
	r.mark(e.rec, lines)
}

// state keeps what is known about the run as a whole.
func (r *Run) state(rec event.Record) {
	seconds := rec.Time.Sub(r.Began).Seconds()
	switch e := rec.Event.(type) {
	case *event.RunStarted:
		r.Started, r.Plugins, r.Done = e, nil, nil
		r.Name = cmp.Or(e.Name, r.Name)
	case *event.RankStarted:
		if rec.Rank == 0 {
			r.Host, r.Rank0, r.Launcher = e.Host, Process{e.PID, rec.Time}, Process{e.LauncherPID, rec.Time}
		}
	case *event.PhaseChanged:
		r.Phase = e.Phase
	case *event.DatasetOpened:
		r.Dataset = e
	case *event.PlanMade:
		r.Plan = e
	case *event.BucketsChosen:
		r.Buckets = e
	case *event.PluginStarted:
		r.Plugins = append(r.Plugins, *e)
	case *event.CheckpointLoaded:
		r.Loaded = e
	case *event.EvalDone:
		r.Evals = append(r.Evals, Eval{seconds, *e})
	case *event.CheckpointSaved:
		r.Saves = append(r.Saves, Save{seconds, *e})
	case *event.RunDone:
		r.Done = e
	}
}

// Bounds of what is kept: a plugin may warn in every step, and a line of a log may be long.
const (
	mostWarnings = 1000
	longestText  = 16 << 10 // bytes of a mark's
)

func (r *Run) mark(rec event.Record, lines *event.Lines) {
	text := strings.Join(lines.Of(rec), "\n")
	kind := kindOf(rec)
	switch {
	case kind == "":
		return
	case kind == "warning" && r.warnings >= mostWarnings:
		r.Unshown++
		return
	case kind == "warning":
		r.warnings++
	}
	if own := outcomeText(rec.Event); own != "" {
		text = own
	}
	r.Marks = append(r.Marks, Mark{Step: r.stepOf(rec.Event), Seconds: rec.Time.Sub(r.Began).Seconds(), Rank: rec.Rank, Kind: kind, Text: Clean(text, longestText)})
}

// stepOf is the step that was done before an event, as far as the run knows: a checkpoint goes back to its own.
func (r *Run) stepOf(e event.Event) int {
	if c, ok := e.(*event.CheckpointLoaded); ok {
		return c.Step
	}
	if r.LastStep() == 0 && r.Loaded != nil {
		return r.Loaded.Step
	}
	return r.LastStep()
}

// Clean returns text of unknown origin as it can be shown: without control characters other than
// line breaks and tabs, such as those that colour terminals, and with at most limit bytes and a
// remark of how many are missing.
func Clean(text string, limit int) string {
	more := ""
	if len(text) > limit {
		more = fmt.Sprintf(" … (%d more bytes)", len(text)-limit)
		text = text[:limit]
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	return strings.TrimSpace(text) + more
}

// kindOf is the kind of a mark; "" for events that are none.
func kindOf(rec event.Record) string {
	switch e := rec.Event.(type) {
	case *event.RunStarted:
		if e.Restart > 0 {
			return "restart"
		}
	case *event.CheckpointLoaded:
		return "resume"
	case *event.Elastic:
		return "membership"
	case *event.BackendRestarted, *event.PluginRestarted:
		return "replaced"
	case *event.PluginFailed, *event.RankFailed, *event.Refused:
		return "failure"
	case *event.Warning:
		return "warning"
	case *event.PluginLog:
		if e.Total == 0 && (e.Level == "warn" || e.Level == "error") {
			return "warning"
		}
	case *event.EarlyStop:
		return "early stop"
	case *event.ModelInit:
		return "note"
	case *event.DatasetOpened:
		if e.Notice != "" {
			return "note"
		}
	case *event.RunDone:
		return "end"
	}
	return ""
}

// outcomeText describes events that progress on a terminal shows in another way.
func outcomeText(e event.Event) string {
	switch e := e.(type) {
	case *event.PluginFailed:
		how := "died"
		if e.Hung {
			how = "hung"
		}
		return fmt.Sprintf("%s plugin %s (process %d) %s in %s: %s", e.Type, e.Name, e.PID, how, e.Operation, e.Cause)
	case *event.RankFailed:
		how := fmt.Sprintf("exit code %d", e.ExitCode)
		if e.Signal != "" {
			how = e.Signal
		}
		return strings.Join(append([]string{strings.TrimSpace(fmt.Sprintf("rank %d on %s ended with %s. %s", e.FailedRank, e.Host, how, e.Message))}, e.LastLines...), "\n")
	case *event.Refused:
		return e.Message
	case *event.RunDone:
		return strings.TrimSpace(e.Status + " " + e.Message)
	}
	return ""
}
