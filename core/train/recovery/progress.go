package recovery

import (
	"fmt"
	"math"
	"slices"

	"github.com/trainctl/trainctl/core/job/rank"
)

// progress is the progress of a rank, which it sends to the others when the process
// group broke, and at the end of the run.
type progress struct {
	Stage     int      // number of the stage that it is in
	Name      string   // of the stage
	Broadcast bool     // the stage ends with a broadcast
	Seq       uint64   // collectives called so far
	Reduced   int      // number of the last stage that ended with a reduction
	Result    []uint64 // what that stage ended with, as bits: a sum may be NaN
	Passed    []string // names of the stages after it that have ended, with broadcasts
	Cause     string   // why its group broke; "" at the end of the run
	Own       bool     // the failure was of its own plugin
	Replaced  int      // groups that it has tried to replace
	Node      int      // on which it runs
	New       bool     // it joins the run, and has nothing of it yet
}

// remember notes that a stage has ended, and copies its result.
func (p *progress) remember(s Stage) {
	if s.Result == nil {
		p.Passed = append(p.Passed, s.Name)
		return
	}
	p.Reduced, p.Result, p.Passed = p.Stage, p.Result[:0], p.Passed[:0]
	for _, v := range s.Result {
		p.Result = append(p.Result, math.Float64bits(v))
	}
}

// enter is the progress of a rank that joins at a stage.
func (p *progress) enter(stage int) {
	p.New, p.Stage, p.Reduced, p.Result, p.Passed = false, stage, stage-1, nil, append(p.Passed[:0], admitting)
}

// consensus is what all ranks conclude from their progress.
type consensus struct {
	finished    bool     // all are at the end
	cause       string   // whose plugin it was and what happened
	stage       int      // with which all continue
	result      []uint64 // of the last reduction, for ranks that have not seen its end
	rebroadcast []string // names of stages whose broadcasts a rank has missed, in order
	seq         uint64   // of the last collective that any rank has called
	replaced    int      // largest number of groups that any rank has tried to replace
	admits      bool     // in that stage ranks admit others
	joined      bool     // others have joined
	nodes       []int    // of all ranks, by rank
}

// agree moves all ranks to the latest stage that any rank has reached. A rank can miss the end of
// the last reduction, which cannot end anywhere before this rank has begun it, and any number of
// broadcasts after it, which can end on their roots before others have begun them.
func agree(all []progress) (consensus, error) {
	c := consensus{finished: true, cause: causeOf(all)}
	var first *progress
	for r := range all {
		p := &all[r]
		c.nodes = append(c.nodes, p.Node)
		c.seq, c.replaced = max(c.seq, p.Seq), max(c.replaced, p.Replaced)
		if p.New {
			c.joined = true
			continue
		}
		c.finished = c.finished && p.Cause == ""
		if first == nil || p.Stage > first.Stage {
			first = p
		}
	}
	if first == nil {
		return c, fmt.Errorf("all %d ranks are new: %w", len(all), rank.ErrNoModel)
	}
	c.stage, c.result, c.admits = first.Stage, first.Result, first.Name == admitting
	missed := len(first.Passed)
	for r := range all {
		p := &all[r]
		if p.New || p.Stage == c.stage {
			continue
		}
		if begun := p.Stage - first.Reduced - 1; begun < -1 || p.Broadcast == (begun < 0) {
			return c, fmt.Errorf("rank %d is in stage %d of the run (%s), others are in %d (%s): they cannot go on together", r, p.Stage, p.Name, first.Stage, first.Name)
		} else {
			missed = min(missed, max(begun, 0))
		}
	}
	for _, name := range first.Passed[missed:] {
		if !slices.Contains(c.rebroadcast, name) {
			c.rebroadcast = append(c.rebroadcast, name)
		}
	}
	return c, nil
}

// causeOf prefers the rank whose own plugin died to those that lost a peer.
func causeOf(all []progress) string {
	cause := ""
	for r := range all {
		p := &all[r]
		if p.Cause == "" {
			continue
		}
		text := fmt.Sprintf("rank %d, %s", r, p.Cause)
		if p.Own {
			return text
		}
		if cause == "" {
			cause = text
		}
	}
	return cause
}
