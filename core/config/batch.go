package config

import "fmt"

// PerRankBatch returns the number of samples per micro-step of one of world
// ranks: train.per_rank_batch, or train.global_batch divided by world and
// accumulate_steps, which must divide it evenly. The error is an [*Error] that
// points at the setting.
func (c *Config) PerRankBatch(world int) (int, error) {
	if world < 1 {
		panic(fmt.Sprintf("config: world size %d", world))
	}
	n, err := c.Train.Batch(world)
	if err != nil {
		r := newReport(c.report.file)
		r.places = c.places
		c.dividesEvenly(r, world)
		return 0, &Error{Diagnostics: r.sorted(), Causes: []error{err}}
	}
	return n, nil
}

// GlobalBatch returns the number of samples of one optimizer step over world ranks.
func (c *Config) GlobalBatch(world int) (int, error) {
	b, err := c.PerRankBatch(world)
	return b * world * c.Train.AccumulateSteps, err
}

func (c *Config) dividesEvenly(r *report, world int) bool {
	n, share := c.Train.GlobalBatch, world*c.Train.AccumulateSteps
	if n%share == 0 {
		return true
	}
	lower, upper := n/share*share, (n/share+1)*share
	help := fmt.Sprintf("use a multiple of %d: %d or %d", share, lower, upper)
	if lower == 0 {
		help = fmt.Sprintf("use a multiple of %d", share)
	}
	r.errorf("train.global_batch", atValue, help, "%d samples do not divide evenly among %s × %s",
		n, plural(world, "rank"), plural(c.Train.AccumulateSteps, "micro-step"))
	return false
}

// fixedWorld returns the world size if the file determines it, else 0.
func (c *Config) fixedWorld() int {
	ranks, nodes := c.Launch.NprocPerNode.Int(), c.Launch.Nnodes.Int()
	if ranks < 1 || nodes < 1 {
		return 0
	}
	return ranks * nodes
}
