package config

// check runs every table's own checks, then those that need several tables.
func (c *Config) check() {
	r := c.report
	r.problems("run", c.Run.Problems())
	r.problems("backend", c.Backend.Problems())
	r.problems("precision", c.Precision.Problems())
	r.problems("dataset", c.Dataset.Problems())
	r.problems("sampler", c.Sampler.Problems())
	r.problems("train", c.Train.Problems())
	r.problems("optimizer", c.Optimizer.Problems())
	r.problems("lr_scheduler", c.Scheduler.Problems())
	r.problems("ddp", c.DDP.Problems())
	r.problems("checkpoint", c.Checkpoint.Problems())
	r.problems("metrics", c.Metrics.Problems())
}
