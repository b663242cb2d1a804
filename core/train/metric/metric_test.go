package metric

import (
	"math"
	"reflect"
	"testing"

	"github.com/trainctl/trainctl/core/base/testjson"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

type golden struct {
	Logits, Precision, Recall, Loss, Probability []float64
	Target                                       []int32
	Worst                                        []int64
	K                                            int
	TopK                                         float64 `json:"top_k"`
	Confusion                                    [][]int64
}

const classes = 6

func everything(k int) Config {
	return Config{Metrics: []string{TopK, PerClass, Confusion, Worst}, TopK: k, Worst: 5}
}

func load(t *testing.T) golden { return testjson.Read[golden](t, "testdata/metrics.json") }

// evaluate counts the samples on a world of ranks, in batches, and adds up.
func (g *golden) evaluate(world, batch int, soft bool) event.Evaluation {
	spec := sdk.DatasetSpec{Classes: classes, Target: tensor.Spec{DType: tensor.I32}}
	if soft {
		spec.Target = tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{classes}}
	}
	var sums []float64
	var c *Counter
	for rank := range world {
		c = New(everything(g.K), &spec, world, rank)
		var mine []int64
		for i := rank; i < len(g.Target); i += world {
			mine = append(mine, int64(i))
		}
		for len(mine) > 0 {
			n := min(batch, len(mine))
			g.add(c, mine[:n], soft)
			mine = mine[n:]
		}
		if sums == nil {
			sums = make([]float64, c.Len())
		}
		own := make([]float64, c.Len())
		c.Values(own)
		for i, v := range own {
			sums[i] += v
		}
	}
	return c.Result(sums, nil, func(i int64) (string, int64) { return "test", i })
}

func (g *golden) add(c *Counter, indices []int64, soft bool) {
	logits := tensor.New(tensor.F32, len(indices), classes)
	var targets []int32
	probabilities := make([]float32, len(indices)*classes)
	for i, at := range indices {
		for j := range classes {
			tensor.View[float32](logits.Data)[i*classes+j] = float32(g.Logits[int(at)*classes+j])
		}
		targets = append(targets, g.Target[at])
		if g.Target[at] >= 0 {
			probabilities[i*classes+int(g.Target[at])] = 1
		}
	}
	if soft {
		c.Add(logits, tensor.Bytes(probabilities), indices)
		return
	}
	c.Add(logits, tensor.Bytes(targets), indices)
}

func TestMetricsArePyTorchs(t *testing.T) {
	g := load(t)
	e := g.evaluate(1, 40, false)
	if e.TopK != g.K || math.Abs(float64(e.TopKAccuracy)-g.TopK) > 1e-15 || !reflect.DeepEqual(e.Confusion, g.Confusion) {
		t.Errorf("top-%d %v, want %v; confusion %v, want %v", e.TopK, e.TopKAccuracy, g.TopK, e.Confusion, g.Confusion)
	}
	for i, m := range e.PerClass {
		if math.Abs(float64(m.Precision)-g.Precision[i])+math.Abs(float64(m.Recall)-g.Recall[i]) > 1e-15 {
			t.Errorf("class %d: %+v, want precision %v and recall %v", i, m, g.Precision[i], g.Recall[i])
		}
	}
	for i, w := range e.Worst {
		if w.Index != g.Worst[i] || math.Abs(float64(w.Loss)-g.Loss[i]) > 1e-12 || math.Abs(float64(w.Probability)-g.Probability[i]) > 1e-12 || w.Class != int(g.Target[w.Index]) {
			t.Errorf("worst %d: %+v, want sample %d with a loss of %v at %v", i, w, g.Worst[i], g.Loss[i], g.Probability[i])
		}
	}
	if m := e.PerClass[4]; m.Samples != 0 || m.Recall != 0 {
		t.Errorf("a class without samples has %+v", m)
	}
}

// The results do not depend on ranks and batches.
func TestMetricsOnRanks(t *testing.T) {
	g := load(t)
	want := g.evaluate(1, 40, false)
	for _, world := range []int{1, 2, 3, 7} {
		if got := g.evaluate(world, 5, false); !reflect.DeepEqual(got, want) {
			t.Errorf("on %d ranks %+v, want %+v", world, got, want)
		}
	}
	for i := range g.Target {
		g.Target[i] = max(g.Target[i], 0)
	}
	if soft, hard := g.evaluate(2, 7, true), g.evaluate(1, 40, false); !reflect.DeepEqual(soft, hard) {
		t.Errorf("with probabilities %+v, want %+v", soft, hard)
	}
}

func TestRefusedMetrics(t *testing.T) {
	numbers := sdk.DatasetSpec{}
	many := sdk.DatasetSpec{Classes: 1000, Target: tensor.Spec{DType: tensor.I32}}
	text := sdk.DatasetSpec{Classes: 5, Target: tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{8}}}
	for _, c := range []struct {
		spec sdk.DatasetSpec
		cfg  Config
		want int
	}{
		{numbers, everything(2), 4}, {many, everything(2), 1}, {text, everything(5), 2}, {many, Default(), 0}, {numbers, Default(), 0},
	} {
		if l := usererr.Problems(c.cfg.Check(&c.spec)); len(l) != c.want {
			t.Errorf("%+v: %v, want %d problems", c.spec, l, c.want)
		}
	}
	if l := (Config{Metrics: []string{"speed", TopK, TopK}}).Problems(); len(l) != 4 {
		t.Errorf("wrong tables give %v", l)
	}
	if New(Default(), &many, 1, 0) != nil {
		t.Error("the defaults need outputs")
	}
}
