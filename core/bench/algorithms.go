package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv"
)

// WorstLoss is how many times as long as the best algorithm the chosen one may take.
const WorstLoss = 1.3

// A choice that seems to lose more than doubtful is measured again, up to doubts times.
const (
	doubtful = 1.1
	doubts   = 4
)

// AlgorithmOptions says which convolutions Algorithms measures, and how.
type AlgorithmOptions struct {
	Match   string // what a kernel's name or shape contains
	Random  int    // convolutions that are drawn in addition to those of the list
	Seed    uint64 // of these
	Threads int    // that share a convolution
	Budget  time.Duration
	Rounds  int // over all of them, at least one; the shortest times count
}

// AlgorithmTable is the head of recorded results: where they were measured.
type AlgorithmTable struct {
	CPU     string `json:"cpu"`
	Level   string `json:"level"`
	Threads int    `json:"threads"`
	Halves  bool   `json:"halves,omitempty"` // see kernel.Halves
}

// Table is the head of what Algorithms measures on this machine.
func (o *AlgorithmOptions) Table() AlgorithmTable {
	return AlgorithmTable{CPU: CPUModel(), Level: kernel.Current().String(), Threads: o.Threads, Halves: kernel.Halves()}
}

// AlgorithmResult is a convolution by every algorithm that takes it.
type AlgorithmResult struct {
	Name     string             `json:"kernel"`
	Shape    string             `json:"shape"`
	Geometry conv.Shape         `json:"geometry"`
	Times    map[string]float64 `json:"min_us"`
	Chosen   string             `json:"chosen"`
	Best     string             `json:"best"`
	// Loss is the chosen algorithm's time per that of the best.
	Loss float64 `json:"loss"`

	direction direction
}

// Algorithms measures convolutions by every algorithm that takes them. It returns ctx's
// error if ctx ends first.
func Algorithms(ctx context.Context, o AlgorithmOptions, each func(AlgorithmResult) error) error {
	results := o.cases(slices.Concat(convolutions, manyShapes, randomShapes(o.Random, o.Seed)))
	for round := range max(1, o.Rounds) {
		for i := range results {
			if err := ctx.Err(); err != nil {
				return err
			}
			a := &results[i]
			a.measure(&o, o.Budget)
			for again := 0; again < doubts && a.Loss > doubtful; again++ {
				a.measure(&o, 2*o.Budget) // other work on the machine slows down single measurements
			}
			if round < o.Rounds-1 {
				continue
			}
			if err := each(*a); err != nil {
				return err
			}
		}
	}
	return nil
}

// cases are the directions of shapes that match.
func (o *AlgorithmOptions) cases(shapes []conv.Shape) (all []AlgorithmResult) {
	for _, p := range shapes {
		for _, d := range directionsOf(&p) {
			a := AlgorithmResult{Name: "conv2d" + d.suffix, Shape: p.String(), Geometry: p, Times: map[string]float64{}, direction: d}
			if strings.Contains(a.Name+" "+a.Shape, o.Match) {
				all = append(all, a)
			}
		}
	}
	return all
}

// measure keeps the shorter times of those that are known and new ones.
func (a *AlgorithmResult) measure(o *AlgorithmOptions, budget time.Duration) {
	d := a.direction
	for alg := range conv.Algorithms {
		if !conv.Takes(&a.Geometry, alg, d.Direction) {
			continue
		}
		restore := conv.Force(alg)
		t := micros(timeShares(a.Geometry, d, max(1, o.Threads), budget))
		restore()
		if old := a.Times[alg.String()]; old == 0 || t < old {
			a.Times[alg.String()] = t
		}
	}
	a.compare(conv.Choose(&a.Geometry, d.Direction).String())
}

// compare sets what follows from the times and the choice.
func (a *AlgorithmResult) compare(chosen string) {
	a.Chosen, a.Best = chosen, chosen
	for name, t := range a.Times {
		if t < a.Times[a.Best] {
			a.Best = name
		}
	}
	a.Loss = a.Times[a.Chosen] / a.Times[a.Best]
}

// timeShares is the shortest lap of the slowest of several threads, each with its share of the images.
func timeShares(p conv.Shape, d direction, threads int, budget time.Duration) time.Duration {
	laps := make([]time.Duration, min(threads, p.N))
	var all sync.WaitGroup
	for i := range laps {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			share := p.Share(p.N*(i+1)/len(laps) - p.N*i/len(laps))
			k := convCase("", share, d)
			laps[i] = repeat(budget, k.Run).percentile(0)
		})
	}
	all.Wait()
	return slices.Max(laps)
}

// AlgorithmPrinter is KernelPrinter for Algorithms; the output ends with the worst choice.
func AlgorithmPrinter(w io.Writer, head AlgorithmTable, asJSON bool) (print func(AlgorithmResult) error, flush func() error) {
	if asJSON {
		enc := json.NewEncoder(w)
		write := sync.OnceValue(func() error { return enc.Encode(head) })
		print = func(r AlgorithmResult) error {
			if err := write(); err != nil {
				return err
			}
			return enc.Encode(r)
		}
		return print, func() error { return nil }
	}
	worst := AlgorithmResult{}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "KERNEL\tSHAPE\tLOSS\tCHOSEN\tMIN µs OF EACH")
	print = func(r AlgorithmResult) error {
		if r.Loss > worst.Loss {
			worst = r
		}
		fmt.Fprintf(tw, "%s\t%s\t%.2f\t%s\t", r.Name, r.Shape, r.Loss, r.Chosen)
		for _, name := range slices.Sorted(maps.Keys(r.Times)) {
			fmt.Fprintf(tw, "%s %.1f  ", name, r.Times[name])
		}
		_, err := fmt.Fprintln(tw)
		return err
	}
	return print, func() error {
		if err := tw.Flush(); err != nil || worst.Chosen == "" {
			return err
		}
		_, err := fmt.Fprintf(w, "worst choice: %v\n", &worst)
		return err
	}
}

// String compares the choice with the best.
func (a *AlgorithmResult) String() string {
	return fmt.Sprintf("%s of %s by %s takes %.2f times as long as by %s", a.Name, a.Shape, a.Chosen, a.Loss, a.Best)
}

// ChoiceError is choices that take longer than WorstLoss times the best.
type ChoiceError struct {
	Measured int
	Slow     []AlgorithmResult
}

func (e *ChoiceError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "for %d of %d convolutions another algorithm is more than %.1f times as fast as the chosen one:\n", len(e.Slow), e.Measured, WorstLoss)
	for i := range e.Slow {
		fmt.Fprintf(&b, "  %v\n", &e.Slow[i])
	}
	b.WriteString("measure them again on an idle machine (--match); if they stay slow, correct the cost of these algorithms (Cost in core/engine/kernel/conv)")
	return b.String()
}

// CheckAlgorithms is Algorithms, and returns a *ChoiceError if choices are too slow.
func CheckAlgorithms(ctx context.Context, o AlgorithmOptions, each func(AlgorithmResult) error) error {
	var e ChoiceError
	err := Algorithms(ctx, o, func(r AlgorithmResult) error {
		if e.Measured++; r.Loss > WorstLoss {
			e.Slow = append(e.Slow, r)
		}
		return each(r)
	})
	if err == nil && len(e.Slow) > 0 {
		return &e
	}
	return err
}
