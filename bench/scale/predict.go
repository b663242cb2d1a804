package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/trainctl/trainctl/bench/internal/selfrank"
	"github.com/trainctl/trainctl/core/base/cgroup"
	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/tensor"
	tcp "github.com/trainctl/trainctl/plugins/backend-tcp"
)

// calls is how many collectives a step of the measured job has besides its buckets: loss and
// counts.
const calls = 1

// The kinds of jobs, as launch.isolation names them.
const (
	isolated = "isolated"
	inproc   = "inproc"
)

// predictions derives the constants from jobs that were measured for that, and fills in what the model says.
func (o *options) predictions(ctx context.Context, all *report, references []measured) error {
	c, err := o.constants(ctx, all.Jobs, references)
	if err != nil {
		return err
	}
	all.Constants = &c
	for i := range all.Jobs {
		m := &all.Jobs[i]
		w := world{Ranks: m.Ranks, Hosts: max(1, m.Hosts), Cores: c.Cores, Inproc: o.inproc(m.Ranks)}
		step := c.step(w, between(c.Net, m.Ranks/max(1, m.Hosts), o.reproducible))
		all.Checked = append(all.Checked, checked{Ranks: m.Ranks, Hosts: m.Hosts, Measured: m.StepMS, Predicted: step / 1e6,
			MeasuredCPU: m.StepCPUMS, PredictedCPU: c.cpu(w, step) / 1e6})
	}
	net := tcp.Cost{Alpha: float64(o.latency.Nanoseconds()), Beta: 1 / o.bandwidth, Gamma: c.Net.Gamma}
	all.Network = &net
	for n := 2; n <= 1024; n *= 2 {
		all.Predicted = append(all.Predicted, o.predicted(&c, net, n))
	}
	return nil
}

// predicted is the prediction for a number of ranks on a network.
func (o *options) predicted(c *constants, net tcp.Cost, ranks int) predicted {
	p := predicted{Ranks: ranks, Hosts: max(1, ranks/o.perHost), Of: map[string]float64{}}
	p.StepMS = c.step(world{Ranks: ranks, Hosts: p.Hosts}, between(net, o.perHost, o.reproducible)) / 1e6
	switch {
	case p.Hosts == 1:
		p.Chosen = "shared memory"
	case o.perHost == 1:
		p.Chosen = net.Cheapest(int(c.Bytes), ranks, o.reproducible)
	default:
		p.Chosen, _ = net.BetweenHosts(int(c.Bytes), p.Hosts, o.perHost, o.reproducible)
	}
	for _, a := range tcp.Algorithms(false) {
		p.Of[a] = c.step(world{Ranks: ranks, Hosts: ranks}, byAlgorithm(net, a)) / 1e6
	}
	return p
}

// inproc reports whether the plugins of a job run in the processes of its ranks.
func (o *options) inproc(ranks int) bool {
	c := launch.Config{Isolation: o.isolation}
	return c.InRank(ranks/max(1, o.hosts), cgroup.Cores())
}

// constants derives the constants from a rank alone and pairs of jobs of ranks that share cores, and measures the
// backend alone.
func (o *options) constants(ctx context.Context, jobs, some []measured) (c constants, err error) {
	c.Cores, c.Calls = cgroup.Cores(), calls
	c.Step, c.CPU = some[0].StepMS*1e6, some[0].StepCPUMS*1e6
	for i := 1; i < len(some); i += 2 {
		c.Crowded = append(c.Crowded, c.crowdThrough(&some[i], &some[i+1]))
	}
	last := jobs[len(jobs)-1]
	c.Buckets, c.Bytes = max(1, last.Buckets), float64(last.Bytes)/float64(max(1, last.Buckets))
	if c.Shared, err = o.allReduce(ctx, 2, 0); err != nil {
		return c, err
	}
	c.Net = tcp.Cost{Gamma: 0.05}
	if o.hosts > 0 {
		two, err := o.allReduce(ctx, 2, 2)
		if err != nil {
			return c, err
		}
		c.Net.Alpha, c.Net.Beta = two.Call, two.Byte
	}
	return c, nil
}

// crowdThrough explains two jobs of one kind.
func (c *constants) crowdThrough(few, many *measured) crowd {
	wall := func(m *measured) float64 { return m.StepMS * 1e6 / world{Ranks: m.Ranks, Cores: c.Cores}.turns() }
	busy := func(m *measured) float64 { return m.StepCPUMS / m.StepMS / float64(c.Cores) }
	return crowd{Inproc: few.Isolation == inproc, Wall: perRankThrough(few.Ranks, wall(few), many.Ranks, wall(many)), Busy: (busy(few) + busy(many)) / 2}
}

// references returns the jobs from which constants of shared cores are derived: two of each kind that the
// measured jobs with more ranks than cores have, of other sizes than any of them, with as many ranks on each
// core.
func (o *options) references(cores int) (all []job) {
	for _, isolation := range []string{isolated, inproc} {
		least, most := 0, 0
		for _, n := range o.ranks {
			if n > cores && o.inproc(n) == (isolation == inproc) {
				least, most = min(n, cmp.Or(least, n)), max(n, most)
			}
		}
		if most == 0 {
			continue
		}
		unit := max(1, o.hosts) * cores
		next := func(n int) int {
			for n = tensor.RoundUp(n, unit); n <= cores || slices.Contains(o.ranks, n); n += unit {
			}
			return n
		}
		few := next(least * 3 / 4)
		for _, n := range []int{few, next(max(few+1, most*3/2))} {
			all = append(all, job{Ranks: n, Hosts: o.hosts, Batch: o.batch, Isolation: isolation})
		}
	}
	return all
}

// allReduce measures the backend alone. The fastest round counts.
func (o *options) allReduce(ctx context.Context, ranks, hosts int) (linear, error) {
	program, err := selfrank.Program()
	if err != nil {
		return linear{}, err
	}
	const small, large = 1 << 10, 1 << 20
	best := map[int]float64{}
	for range o.rounds {
		s := bench.Spec{Backend: "tcp", World: ranks, Hosts: hosts, Sizes: []int{small, large}, DType: tensor.F32,
			Budget: 500 * time.Millisecond, Timeout: bench.DefaultTimeout}
		err := bench.AllReduce(ctx, program, s, func(r bench.Result) error {
			if ns := r.P50 * 1e3; best[r.Bytes] == 0 || ns < best[r.Bytes] {
				best[r.Bytes] = ns
			}
			return nil
		})
		if err != nil {
			return linear{}, fmt.Errorf("all-reduce of %d ranks: %w", ranks, err)
		}
	}
	return lineThrough(small, best[small], large, best[large]), nil
}
