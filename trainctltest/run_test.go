package trainctltest_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/trainctl/trainctl"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/trainctltest"
)

// point is a sample of the tests: its class is the quadrant that it lies in.
type point struct {
	x, y  float32
	class int
}

func quadrants(n int, seed uint64) (all []point) {
	r := rand.New(rand.NewPCG(seed, 1))
	for range n {
		p := point{x: r.Float32()*2 - 1, y: r.Float32()*2 - 1}
		if p.x > 0 {
			p.class++
		}
		if p.y > 0 {
			p.class += 2
		}
		all = append(all, p)
	}
	return all
}

var points = trainctl.Slice[point]{
	Name: "quadrants", Train: quadrants(256, 1), Test: quadrants(64, 2), Shape: []int{2}, Classes: 4,
	Input: func(p point, x []float32) { x[0], x[1] = p.x, p.y },
	Class: func(p point) int { return p.class },
}

var network = trainctl.TOML(`
[run]
name = "quadrants"
[train]
per_rank_batch = 16
epochs = 3
[model]
layers = [{ type = "linear", out_features = 16 }, { type = "relu" }, { type = "linear", out_features = 4 }]
[optimizer]
name = "adamw"
lr = 0.03
[backend]
plugin = "nccl"
[backend.options]
isolation = "inproc"
[checkpoint]
every = "never"
`)

// A backend of NCCL in the file is replaced by one in memory or TCP, which give the same bits.
func TestBackendsAreSwapped(t *testing.T) {
	memory := trainctltest.Run(t, network, 2, trainctltest.Memory(), trainctl.Dataset(points.New))
	tcp := trainctltest.Run(t, network, 2, trainctl.TCP, trainctl.Dataset(points.New))
	if memory.Summary.Backend != "mem" || tcp.Summary.Backend != "tcp" {
		t.Errorf("backends %q and %q", memory.Summary.Backend, tcp.Summary.Backend)
	}
	if !slices.Equal(memory.Losses, tcp.Losses) || len(memory.Losses) != 24 {
		t.Errorf("losses %v in memory, %v over TCP", memory.Losses, tcp.Losses)
	}
	if memory.Summary.ParamsSHA256[0] != tcp.Summary.ParamsSHA256[1] {
		t.Errorf("weights %v in memory, %v over TCP", memory.Summary.ParamsSHA256, tcp.Summary.ParamsSHA256)
	}
	if acc := float64(*memory.Summary.Eval.Accuracy); acc < 0.9 {
		t.Errorf("accuracy %v", acc)
	}
	w, ok := memory.Weights["2.weight"]
	if !ok || !slices.Equal(w.Shape, []int{4, 16}) {
		t.Errorf("weights %v", memory.Weights)
	}
	trainctltest.Golden(t, memory.Losses, "testdata/quadrants.json", 1e-3)
}

// Every step reduces one bucket and its totals on each rank.
func TestCollectivesAreCounted(t *testing.T) {
	var n trainctltest.Counter
	r := trainctltest.Run(t, network, 2, trainctltest.Intercept(trainctltest.Memory(), n.Count), trainctl.Dataset(points.New))
	if got := n.Of(sdk.OpAllReduce); got < 2*2*r.Summary.Steps || got > 2*3*r.Summary.Steps {
		t.Errorf("%d all-reduces in %d steps of 2 ranks", got, r.Summary.Steps)
	}
}

var errCut = errors.New("the cable is cut")

// The third all-reduce fails: the run fails with the error of that rank, whatever error the other rank
// returns.
func TestThirdReductionFails(t *testing.T) {
	var n atomic.Int64
	third := func(c *sdk.Collective) error {
		if c.Op == sdk.OpAllReduce && n.Add(1) == 3 {
			return errCut
		}
		return nil
	}
	_, err := trainctltest.Try(t, network, 2, trainctltest.Intercept(trainctltest.Memory(), third), trainctl.Dataset(points.New))
	var failed *trainctl.RunError
	if !errors.Is(err, errCut) || !errors.As(err, &failed) || failed.Rank < 0 || !strings.Contains(failed.Message, errCut.Error()) {
		t.Errorf("error %v", err)
	}
}

// A test may read the events of a run, too.
func TestEventsOfARun(t *testing.T) {
	events, steps := make(chan trainctl.Event), make(chan int)
	go func() {
		n := 0
		for e := range events {
			if _, is := e.Event.(*trainctl.StepDone); is {
				n++
			}
		}
		steps <- n
	}()
	r := trainctltest.Run(t, network.With("train.epochs=1"), 2, trainctltest.Memory(), trainctl.Dataset(points.New), trainctl.Events(events))
	if n := <-steps; n != 8 || len(r.Losses) != 8 {
		t.Errorf("%d steps and %d losses", n, len(r.Losses))
	}
}

// A regression has targets of numbers.
func TestTargetsAreNumbers(t *testing.T) {
	sums := trainctl.Slice[point]{
		Train: points.Train, Test: points.Test, Shape: []int{2}, Input: points.Input,
		TargetShape: []int{1}, Target: func(p point, y []float32) { y[0] = p.x + p.y },
	}
	cfg := network.With(`model.layers=[{ type = "linear", out_features = 1 }]`)
	r := trainctltest.Run(t, cfg, 1, trainctltest.Memory(), trainctl.Dataset(sums.New))
	if last := r.Losses[len(r.Losses)-1]; last > r.Losses[0]/10 {
		t.Errorf("losses from %v to %v", r.Losses[0], last)
	}
}

// Mistakes are errors that name the place.
func TestMistakesAreNamed(t *testing.T) {
	wrong := points
	wrong.Class = func(p point) int { return p.class + 1 }
	for name, c := range map[string]struct {
		cfg  trainctl.Config
		data trainctl.Option
		want string
	}{
		"a key":           {network.With("train.epoch=3"), trainctl.Dataset(points.New), "train.epoch"},
		"a class":         {network, trainctl.Dataset(wrong.New), "its class is 4; fix: Class returns 0 to 3"},
		"half a data set": {network, trainctl.Dataset(trainctl.Slice[point]{Train: points.Train}.New), "Shape and Input are needed"},
		"no data set":     {network, trainctl.Set(), "dataset.plugin"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := trainctltest.Try(t, c.cfg, 2, trainctltest.Memory(), c.data); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}
