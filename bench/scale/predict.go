package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/trainctl/trainctl/bench/internal/selfrank"
	"github.com/trainctl/trainctl/core/base/cgroup"
	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/core/tensor"
	tcp "github.com/trainctl/trainctl/plugins/backend-tcp"
)

// calls is how many collectives a step of the measured job has besides its buckets: loss and
// counts.
const calls = 1

// predictions measures the constants and fills in what the model says.
func (o *options) predictions(ctx context.Context, r *runner, all *report, log io.Writer) error {
	c, err := o.constants(ctx, r, all.Jobs, log)
	if err != nil {
		return err
	}
	all.Constants = &c
	for i := range all.Jobs {
		m := &all.Jobs[i]
		w := world{Ranks: m.Ranks, Hosts: max(1, m.Hosts), Cores: c.Cores}
		all.Checked = append(all.Checked, checked{Ranks: m.Ranks, Hosts: m.Hosts, Measured: m.StepCPUMS, Predicted: c.work(w) * float64(m.Ranks) / 1e6})
	}
	net := tcp.Cost{Alpha: float64(o.latency.Nanoseconds()), Beta: 1 / o.bandwidth, Gamma: c.Net.Gamma}
	all.Network = &net
	for n := 2; n <= 1024; n *= 2 {
		w := world{Ranks: n, Hosts: n}
		p := predicted{Ranks: n, StepMS: c.step(w, cheapest(net, o.reproducible)) / 1e6, Of: map[string]float64{},
			Chosen: net.Cheapest(int(c.Bytes), n, o.reproducible)}
		for _, a := range tcp.Algorithms(false) {
			p.Of[a] = c.step(w, byAlgorithm(net, a)) / 1e6
		}
		all.Predicted = append(all.Predicted, p)
	}
	return nil
}

// constants measures a rank alone, and the backend alone.
func (o *options) constants(ctx context.Context, r *runner, jobs []measured, log io.Writer) (c constants, err error) {
	c.Cores, c.Calls = cgroup.Cores(), calls
	crowd := 2 * c.Cores
	some, err := o.runs(ctx, r, []job{{Ranks: 1, Batch: o.batch, Isolation: o.isolation}, {Ranks: crowd, Batch: o.batch, Isolation: o.isolation}}, log)
	if err != nil {
		return c, err
	}
	c.Step = some[0].StepCPUMS * 1e6
	last := jobs[len(jobs)-1]
	c.Buckets, c.Bytes = max(1, last.Buckets), float64(last.Bytes)/float64(max(1, last.Buckets))
	if c.Shared, err = o.allReduce(ctx, 2, 0); err != nil {
		return c, err
	}
	// What a collective costs a rank that shares its core is what its step takes longer.
	more := some[1].StepCPUMS*1e6/float64(crowd) - c.Step
	c.Crowded.Call = max(0, more) / float64(c.Buckets+c.Calls)
	c.Net = tcp.Cost{Gamma: 0.05}
	if o.hosts == 0 {
		return c, nil
	}
	return c, o.network(ctx, &c)
}

// network measures the network between namespaces: two ranks for the latency and the bandwidth,
// four for the work that more messages are.
func (o *options) network(ctx context.Context, c *constants) error {
	two, err := o.allReduce(ctx, 2, 2)
	if err != nil {
		return err
	}
	c.Net.Alpha, c.Net.Beta = two.Call, two.Byte
	four, err := o.allReduce(ctx, 4, 4)
	if err != nil {
		return err
	}
	share := float64(c.Cores) / 4 // of the cores for a rank
	c.NetCPU = linear{Call: four.Call * share / 3, Byte: four.Byte * share / (2 * 3.0 / 4)}
	return nil
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
