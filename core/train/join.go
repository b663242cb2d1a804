package train

import (
	"fmt"
	"strings"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/passes"
)

// longSkew is the number of steps in a row without data on some rank after which a run warns, as
// PyTorch's Join does.
const longSkew = 1000

// join lets ranks with fewer inputs than others take part in the others' steps (ddp.uneven =
// "join"), as PyTorch's Join does (torch/distributed/algorithms/join.py). With other settings it
// does nothing.
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
func (j *join) begin(in passes.Inputs, r *ddp.Reducer) {
	if !j.on() {
		return
	}
	j.authority = in.Top
	if !j.cfg.DivideByInitial {
		r.Divide(in.Active)
	}
	if in.Active == j.world {
		j.skewed = 0
		return
	}
	if j.skewed++; j.skewed == longSkew && j.rank == 0 {
		j.events.Emit(&event.Warning{Source: "train", Message: fmt.Sprintf(
			"%d of %d ranks have had no data for %d steps and are waiting for the others", j.world-in.Active, j.world, longSkew)})
	}
}

// end selects the buffers of a rank that took part in all passes: in PyTorch, where each pass is an
// iteration, it would be the last to join.
func (j *join) end(in passes.Inputs) {
	if j.on() {
		j.authority = in.Last
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
