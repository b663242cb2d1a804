package outline

import "testing"

// When ranks leave, the others' share of a fixed global batch grows: they compute it in
// micro-batches for which they have memory, also if train.per_rank_batch would allow larger ones.
func TestSharesThatGrowFitTheMemory(t *testing.T) {
	c := TrainConfig{GlobalBatch: 128}
	for _, c.PerRankBatch = range []int{0, 64, 43, 20} {
		planned, err := c.Divide(3)
		if err != nil {
			t.Fatal(err)
		}
		for world := 1; world <= 3; world++ {
			d, err := c.within(planned.Micro).Divide(world)
			if err != nil || d.Micro > planned.Micro || d.Micro*d.Accumulate*world < c.GlobalBatch {
				t.Errorf("per_rank_batch %d, %d ranks: %+v, planned for %d, %v", c.PerRankBatch, world, d, planned.Micro, err)
			}
		}
	}
}
