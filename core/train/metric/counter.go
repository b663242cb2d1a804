package metric

import (
	"cmp"
	"math"
	"slices"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Counter counts on one rank. What all ranks counted is added up element by element, so its
// numbers are sums; the list of the worst samples has a part for each rank.
type Counter struct {
	cfg         Config
	classes     int
	soft        bool // targets are probabilities of the classes
	world, rank int
	worst       []sample
	least       float64   // loss below which a sample is not among the worst, by those of earlier batches
	logits      []float64 // of the current row

	values []float64 // top-k, then by class: targets, predictions, both; confusion; worst
	at     struct{ targets, predicted, hits, confusion, worst, end int }
}

// sample is one of the worst, in the order of its numbers in values.
type sample struct {
	index, class, predicted int
	loss, probability       float64
}

const sampleNumbers = 6 // one more than its fields: whether the entry is used

// New makes the counter of a rank; nil if no metric needs the outputs.
func New(cfg Config, spec *sdk.DatasetSpec, world, rank int) *Counter {
	if !cfg.NeedsOutputs() {
		return nil
	}
	c := &Counter{cfg: cfg, classes: spec.Classes, soft: spec.Target.DType.Float(), world: world, rank: rank, least: math.Inf(-1), logits: make([]float64, spec.Classes)}
	c.at.targets = 1
	c.at.predicted = c.at.targets + c.classes
	c.at.hits = c.at.predicted + c.classes
	c.at.confusion = c.at.hits + c.classes
	c.at.worst = c.at.confusion
	if cfg.Has(Confusion) {
		c.at.worst += c.classes * c.classes
	}
	c.at.end = c.at.worst
	if cfg.Has(Worst) {
		c.at.end += world * cfg.Worst * sampleNumbers
	}
	c.values = make([]float64, c.at.end)
	return c
}

// Len is how many numbers ranks add up.
func (c *Counter) Len() int { return c.at.end }

// Reset begins an evaluation.
func (c *Counter) Reset() {
	clear(c.values)
	c.worst, c.least = c.worst[:0], math.Inf(-1)
}

// Add counts a batch: logits [rows, …, classes], targets as the data set has them, and the indices
// of its samples.
func (c *Counter) Add(logits tensor.Tensor, target []byte, indices []int64) {
	rows := logits.Shape.Elems() / c.classes
	for r := range rows {
		c.load(logits, r)
		if class := c.target(target, r); class != sdk.IgnoreIndex {
			c.row(class, int(indices[r*len(indices)/rows]))
		}
	}
	c.trim(c.cfg.Worst)
	if len(c.worst) == c.cfg.Worst {
		c.least = c.worst[len(c.worst)-1].loss
	}
}

// load takes one row of logits.
func (c *Counter) load(logits tensor.Tensor, r int) {
	if logits.DType == tensor.F64 {
		copy(c.logits, tensor.View[float64](logits.Data)[r*c.classes:])
		return
	}
	for i, v := range tensor.View[float32](logits.Data)[r*c.classes : (r+1)*c.classes] {
		c.logits[i] = float64(v)
	}
}

// target is the class of a row; for probabilities, that of the largest.
func (c *Counter) target(target []byte, r int) int {
	if !c.soft {
		return int(tensor.View[int32](target)[r])
	}
	best := 0
	p := tensor.View[float32](target)[r*c.classes : (r+1)*c.classes]
	for i, v := range p {
		if v > p[best] {
			best = i
		}
	}
	return best
}

// row adds one row of logits to the counts.
func (c *Counter) row(class, index int) {
	predicted, before := 0, 0 // of equal logits the first counts as the largest
	for i, v := range c.logits {
		if v > c.logits[predicted] {
			predicted = i
		}
		if v > c.logits[class] || v == c.logits[class] && i < class {
			before++
		}
	}
	if before < c.cfg.TopK {
		c.values[0]++
	}
	c.values[c.at.targets+class]++
	c.values[c.at.predicted+predicted]++
	if predicted == class {
		c.values[c.at.hits+class]++
	}
	if c.cfg.Has(Confusion) {
		c.values[c.at.confusion+class*c.classes+predicted]++
	}
	if c.cfg.Has(Worst) {
		c.consider(class, predicted, index)
	}
}

// rounding is more than the rounding error of a loss.
const rounding = 1e-9

// consider adds the current row to the worst, unless the least possible probability of its class, with all
// logits as large as the largest, already shows that it is not one of them.
func (c *Counter) consider(class, predicted, index int) {
	margin := c.logits[predicted] - c.logits[class]
	if math.Log(float64(c.classes))+margin+rounding < c.least {
		return
	}
	total := 0.0
	for _, v := range c.logits {
		total += math.Exp(v - c.logits[predicted])
	}
	c.worst = append(c.worst, sample{index: index, class: class, predicted: predicted, loss: math.Log(total) + c.logits[predicted] - c.logits[class], probability: 1 / total})
}

// trim keeps the n samples with the largest loss, of equal ones the first.
func (c *Counter) trim(n int) {
	slices.SortFunc(c.worst, func(a, b sample) int { return cmp.Or(cmp.Compare(b.loss, a.loss), cmp.Compare(a.index, b.index)) })
	c.worst = c.worst[:min(n, len(c.worst))]
}

// Values writes what this rank counted, to be added to that of the others.
func (c *Counter) Values(dst []float64) {
	copy(dst, c.values)
	for i, s := range c.worst {
		if c.rank < c.world { // a rank that joined later has no part
			copy(dst[c.at.worst+(c.rank*c.cfg.Worst+i)*sampleNumbers:], []float64{1, float64(s.index), float64(s.class), float64(s.predicted), s.loss, s.probability})
		}
	}
}

// Result computes the metrics from the sums over all ranks. origin converts an index in the test
// split to the data set's own.
func (c *Counter) Result(sums []float64, names []string, origin func(index int64) (split string, at int64)) event.Evaluation {
	counted := 0.0
	for _, n := range sums[c.at.targets:c.at.predicted] {
		counted += n
	}
	e := event.Evaluation{Classes: names}
	if c.cfg.Has(TopK) {
		e.TopK, e.TopKAccuracy = c.cfg.TopK, event.Number(sums[0]/counted)
	}
	if c.cfg.Has(PerClass) {
		for i := range c.classes {
			e.PerClass = append(e.PerClass, perClass(i, names, sums[c.at.targets+i], sums[c.at.predicted+i], sums[c.at.hits+i], counted))
		}
	}
	if c.cfg.Has(Confusion) {
		for i := range c.classes {
			row := make([]int64, c.classes)
			for j := range row {
				row[j] = int64(sums[c.at.confusion+i*c.classes+j])
			}
			e.Confusion = append(e.Confusion, row)
		}
	}
	e.Worst = c.listed(sums, origin)
	return e
}

func perClass(class int, names []string, targets, predicted, hits, counted float64) event.ClassMetrics {
	m := event.ClassMetrics{Class: class, Samples: int64(targets)}
	if class < len(names) {
		m.Name = names[class]
	}
	m.Precision = event.Number(hits / max(predicted, 1))
	m.Recall = event.Number(hits / max(targets, 1))
	m.F1 = event.Number(2 * hits / max(predicted+targets, 1))
	m.Accuracy = event.Number((counted - targets - predicted + 2*hits) / counted)
	return m
}

// listed returns the worst samples of all ranks.
func (c *Counter) listed(sums []float64, origin func(int64) (string, int64)) (out []event.WorstSample) {
	c.worst = c.worst[:0]
	for at := c.at.worst; at < c.at.end; at += sampleNumbers {
		if v := sums[at : at+sampleNumbers]; v[0] == 1 {
			c.worst = append(c.worst, sample{index: int(v[1]), class: int(v[2]), predicted: int(v[3]), loss: v[4], probability: v[5]})
		}
	}
	c.trim(c.cfg.Worst)
	for _, s := range c.worst {
		split, index := origin(int64(s.index))
		out = append(out, event.WorstSample{Split: split, Index: index, Class: s.class, Predicted: s.predicted, Loss: event.Number(s.loss), Probability: event.Number(s.probability)})
	}
	return out
}

// Listed returns the indices in the test split of the samples that the last Result lists as the worst, in its
// order, at most n.
func (c *Counter) Listed(n int) (indices []int64) {
	for _, s := range c.worst[:min(n, len(c.worst))] {
		indices = append(indices, int64(s.index))
	}
	return indices
}
