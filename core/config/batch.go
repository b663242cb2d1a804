package config

import (
	"fmt"

	"github.com/trainctl/trainctl/core/train/data"
)

// Divide divides the samples of a step over world ranks and their micro-steps. The error is
// an [*Error] that points at the setting.
func (c *Config) Divide(world int) (data.Division, error) {
	if world < 1 {
		panic(fmt.Sprintf("config: world size %d", world))
	}
	d, err := c.Train.Divide(world)
	if err != nil {
		r := newReport(c.report.file)
		r.places = c.places
		c.suffices(r, world)
		return d, &Error{Diagnostics: r.sorted(), Causes: []error{err}}
	}
	return d, nil
}

// suffices reports a global batch with less than one sample for each rank.
func (c *Config) suffices(r *report, world int) {
	if n := c.Train.GlobalBatch; n < world {
		r.errorf("train.global_batch", atValue, fmt.Sprintf("set it to %d or more, or use fewer ranks", world), "%s cannot be divided among %s",
			plural(n, "sample"), plural(world, "rank"))
	}
}

// fixedWorld returns the world size if the file determines it, else 0.
func (c *Config) fixedWorld() int {
	ranks, nodes := c.Launch.NprocPerNode.Int(), c.Launch.Nnodes.Int()
	if ranks < 1 || nodes < 1 {
		return 0
	}
	return ranks * nodes
}
