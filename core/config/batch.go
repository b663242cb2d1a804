package config

import "fmt"

// PerRankBatch is the number of samples one rank takes per micro-step when
// world ranks train: train.per_rank_batch, or train.global_batch divided by
// world and accumulate_steps, which has to come out even. The error is an
// [*Error] that points at the file.
func (c *Config) PerRankBatch(world int) (int, error) {
	if world < 1 {
		panic(fmt.Sprintf("config: world size %d", world))
	}
	t := c.Train
	if t.GlobalBatch == 0 {
		return t.PerRankBatch, nil
	}
	share := world * t.AccumulateSteps
	if t.GlobalBatch%share == 0 {
		return t.GlobalBatch / share, nil
	}
	r := newReport(c.report.file)
	r.places = c.places
	r.errorf("train.global_batch", atValue,
		fmt.Sprintf("use a multiple of %d: %d or %d", share, max(1, t.GlobalBatch/share)*share, (t.GlobalBatch/share+1)*share),
		"%d samples do not divide among %d ranks × %d micro-steps", t.GlobalBatch, world, t.AccumulateSteps)
	return 0, &Error{Diagnostics: r.sorted()}
}

// GlobalBatch is the number of samples of one optimizer step over world ranks.
func (c *Config) GlobalBatch(world int) (int, error) {
	b, err := c.PerRankBatch(world)
	return b * world * c.Train.AccumulateSteps, err
}
