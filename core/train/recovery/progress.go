package recovery

import (
	"fmt"
	"math"
)

// progress is the progress of a rank, which it sends to the others when the process
// group broke, and at the end of the run.
type progress struct {
	Stage     int      // number of the stage that it is in
	Name      string   // of the stage
	Broadcast bool     // the stage ends with a broadcast
	Seq       uint64   // collectives called so far
	Result    []uint64 // what the stage before ended with, as bits: a sum may be NaN
	Cause     string   // why its group broke; "" at the end of the run
	Own       bool     // the failure was of its own plugin
	Replaced  int      // groups that it has tried to replace
	Node      int      // on which it runs
	New       bool     // it joins the run, and has nothing of it yet
}

// remember copies the result of the stage that ends.
func (p *progress) remember(result []float64) {
	p.Result = p.Result[:0]
	for _, v := range result {
		p.Result = append(p.Result, math.Float64bits(v))
	}
}

// consensus is what all ranks conclude from their progress.
type consensus struct {
	finished    bool     // all are at the end
	cause       string   // whose plugin it was and what happened
	stage       int      // with which all continue
	result      []uint64 // of the stage before, for ranks that have not seen its end
	rebroadcast string   // name of a stage whose broadcast a rank has missed; "": none
	seq         uint64   // of the last collective that any rank has called
	replaced    int      // largest number of groups that any rank has tried to replace
	admits      bool     // in that stage ranks admit others
	joined      bool     // others have joined
	nodes       []int    // of all ranks, by rank
}

// agree moves all ranks to the latest stage that any rank has reached. A rank may miss several
// stages if there are only broadcasts among them: they broadcast the same.
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
	c.stage, c.result, c.admits = first.Stage, first.Result, first.Name == admitting
	for r := range all {
		p := &all[r]
		known := len(c.result) > 0 // the stage before the last ended with a reduction
		switch {
		case p.New || p.Stage == c.stage:
		case !p.Broadcast && known && p.Stage == c.stage-1:
		case p.Broadcast && !known && (c.rebroadcast == "" || c.rebroadcast == p.Name):
			c.rebroadcast = p.Name
		default:
			return c, fmt.Errorf("rank %d is in stage %d of the run (%s), others are in %d (%s): they cannot go on together", r, p.Stage, p.Name, first.Stage, first.Name)
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
