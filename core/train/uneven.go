package train

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// turn is one step as all ranks see it: who brings batches to it.
type turn struct {
	passes int // micro-steps of every rank; 0: the epoch is over
	mine   int // batches that this rank brings; it shadows the other passes
	active int // ranks that bring any
	top    int // the highest of them
	last   int // the highest of those that bring the most
}

// longSkew is after how many steps without some rank a run says so, as
// PyTorch's Join does.
const longSkew = 1000

// nextTurn finds out whether the epoch has another step. Where uneven inputs
// are allowed, ranks tell each other how many batches they bring, as in
// PyTorch's Join (torch/distributed/algorithms/join.py). Otherwise they are
// taken to bring equally many, which costs no message: a data set that does not
// keep to it is found out by the totals of the step.
func (t *Trainer) nextTurn(ctx context.Context) (turn, error) {
	mine := min(t.left(), t.Settings.Train.AccumulateSteps)
	if t.Settings.DDP.Uneven == ddp.UnevenError {
		return turn{passes: mine, mine: mine, active: t.World.Size}, nil
	}
	t.trace.Step(t.pos.Step + 1)
	if mine > 0 {
		switch err := t.fetch(0); {
		case errors.Is(err, data.ErrEnd):
			mine = 0
		case err != nil:
			return turn{}, err
		}
	}
	all, err := t.numbers(ctx, float64(mine))
	if err != nil {
		return turn{}, err
	}
	n := turn{mine: mine}
	for r, k := range all {
		if k > 0 {
			n.active, n.top = n.active+1, r
		}
		if k > 0 && int(k) >= n.passes {
			n.last, n.passes = r, int(k)
		}
	}
	if t.Settings.DDP.Uneven == ddp.UnevenStop && n.active < t.World.Size {
		n.passes = 0
	}
	return n, nil
}

// begin makes a step what its turn says.
func (t *Trainer) begin(n turn) {
	t.turn = n
	if t.Settings.DDP.Uneven != ddp.UnevenJoin {
		return
	}
	t.keeper = n.top
	if !t.Settings.DDP.DivideByInitial {
		t.reducer.Divide(n.active)
	}
	if n.active == t.World.Size {
		t.skew = 0
		return
	}
	if t.skew++; t.skew == longSkew && t.World.Rank == 0 {
		t.Events.Emit(&event.Warning{Source: "train", Message: fmt.Sprintf(
			"%d of %d ranks have had no data for %d steps and wait for the others", t.World.Size-n.active, t.World.Size, longSkew)})
	}
}

// end makes the batch statistics count of a rank that took part in all passes:
// it would be the last to join in PyTorch, where each is an iteration.
func (t *Trainer) end(n turn) {
	if t.Settings.DDP.Uneven == ddp.UnevenJoin {
		t.keeper = n.last
	}
}

// endEpoch gives all ranks the model of the one that had data the longest, the
// highest of several. Parameters and the optimizer's state are equal on all
// ranks already, since those without data apply the others' gradients, too.
func (t *Trainer) endEpoch(ctx context.Context) error {
	if t.Settings.DDP.Uneven != ddp.UnevenJoin {
		return nil
	}
	return t.settleBuffers(ctx)
}

// fetch waits for the next batch and keeps it for the i-th pass, unless that was done ahead.
func (t *Trainer) fetch(i int) (err error) {
	if t.ahead.Rows > 0 || t.aheadErr != nil {
		err, t.aheadErr = t.aheadErr, nil
		return err
	}
	waited, mark := time.Now(), t.trace.Now()
	t.ahead, err = t.loader.Next()
	t.waited += time.Since(waited)
	t.begun = t.trace.Since(timeline.Data, "batch", i, mark)
	return err
}

// take gives the i-th pass of a step its batch, data.ErrEnd if there is none.
func (t *Trainer) take(i int) (data.Batch, error) {
	if i >= t.turn.mine {
		return data.Batch{}, data.ErrEnd
	}
	if t.ahead.Rows > 0 {
		t.begun = t.trace.Now()
	} else if err := t.fetch(i); err != nil {
		return data.Batch{}, err
	}
	b := t.ahead
	t.ahead = data.Batch{}
	return b, nil
}

// shadow makes the collectives of a pass for which this rank has no batch. Its
// gradients are those of the passes before, of rows samples where total were
// expected, or zero.
func (t *Trainer) shadow(rows, total int, sync bool) error {
	t.reducer.Begin(sync)
	return t.outline.Plan.Shadow(t.exchange, func(param int) {
		if !sync {
		} else if rows == 0 {
			t.device.clear(t.model.grads[param])
		} else if rows != total && t.Settings.Train.AccumulateMean {
			t.device.scale(t.model.grads[param], float64(total)/float64(rows))
		}
		t.reducer.Unused(param)
	})
}

// ranOut is called on all ranks when the data of some of them ended in the step
// at hand. When all of them had equally many batches the epoch is over, and
// without any rows the step does not count. Otherwise the inputs are uneven.
func (t *Trainer) ranOut(ctx context.Context, ended bool) (empty bool, err error) {
	flag := 0.0
	if ended {
		flag = 1
	}
	gathered, err := t.numbers(ctx, flag)
	if err != nil {
		return false, err
	}
	out := append([]float64(nil), gathered...)
	taken, err := t.numbers(ctx, float64(t.before+t.reached()))
	if err != nil {
		return false, err
	}
	even := true
	for r := range out {
		even = even && out[r] == 1 && taken[r] == taken[0]
	}
	if even {
		return t.sums[sumRows] == 0, nil
	}
	return false, t.unevenError(out, taken)
}

func (t *Trainer) unevenError(out, taken []float64) error {
	var short, long []string
	for r := range out {
		if out[r] == 1 {
			short = append(short, fmt.Sprintf("rank %d ran out after %.0f batches", r, taken[r]))
		} else {
			long = append(long, fmt.Sprintf("rank %d has had %.0f", r, taken[r]))
		}
	}
	return fmt.Errorf("epoch %d: the ranks have different numbers of batches: %s; set ddp.uneven = \"join\" to go on without the ranks that ran out, \"stop\" to end the epoch there, or give all ranks equally many",
		t.pos.Epoch, strings.Join(append(short, long...), ", "))
}
