package train

import (
	"fmt"
	"strings"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// inputs are the numbers of micro-batches of all ranks in a step. They are the same on
// all ranks, but for own.
type inputs struct {
	passes int // micro-batches of the rank that brings the most: passes of every rank; 0: the epoch is over
	own    int // that this rank brings; in the other passes it has no input
	active int // ranks that bring any
	top    int // the highest of them
	last   int // the highest of those that bring the most
}

// evenInputs are those of a step in which every rank of a world has n.
func evenInputs(n, world int) inputs { return inputs{passes: n, own: n, active: world} }

// unevenInputs are those of a step in which rank r has all[r].
func unevenInputs(all []float64, own int) inputs {
	in := inputs{own: own}
	for r, k := range all {
		if k > 0 {
			in.active, in.top = in.active+1, r
		}
		if k > 0 && int(k) >= in.passes {
			in.last, in.passes = r, int(k)
		}
	}
	return in
}

// longSkew is after how many steps without some rank a run says so, as
// PyTorch's Join does.
const longSkew = 1000

// join lets ranks with fewer inputs than others take part in the steps of these
// (ddp.uneven = "join"), as PyTorch's Join does
// (torch/distributed/algorithms/join.py). With other settings it does nothing.
type join struct {
	cfg         ddp.Config
	rank, world int
	events      *event.Bus

	authority int // rank whose buffers count; 0, unless it has run out of data
	skewed    int // steps in a row in which some rank had no data
}

func (j *join) on() bool { return j.cfg.Uneven == ddp.UnevenJoin }

// begin prepares a step: the reducer averages over ranks that have data, and
// the buffers of one of them count.
func (j *join) begin(in inputs, r *ddp.Reducer) {
	if !j.on() {
		return
	}
	j.authority = in.top
	if !j.cfg.DivideByInitial {
		r.Divide(in.active)
	}
	if in.active == j.world {
		j.skewed = 0
		return
	}
	if j.skewed++; j.skewed == longSkew && j.rank == 0 {
		j.events.Emit(&event.Warning{Source: "train", Message: fmt.Sprintf(
			"%d of %d ranks have had no data for %d steps and are waiting for the others", j.world-in.active, j.world, longSkew)})
	}
}

// end makes the buffers count of a rank that took part in all passes: it would
// be the last to join in PyTorch, where each is an iteration.
func (j *join) end(in inputs) {
	if j.on() {
		j.authority = in.last
	}
}

// unevenError says which ranks ran out of data, of those with out[r] = 1, and
// how many batches each has taken.
func unevenError(epoch int, out, taken []float64) error {
	var short, long []string
	for r := range out {
		if out[r] == 1 {
			short = append(short, fmt.Sprintf("rank %d ran out after %.0f batches", r, taken[r]))
		} else {
			long = append(long, fmt.Sprintf("rank %d has had %.0f", r, taken[r]))
		}
	}
	return fmt.Errorf("epoch %d: the ranks have different numbers of batches: %s; fix: set ddp.uneven = \"join\" to continue without the ranks that ran out, \"stop\" to end the epoch there, or give all ranks the same number",
		epoch, strings.Join(append(short, long...), ", "))
}
