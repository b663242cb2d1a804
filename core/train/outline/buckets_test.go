package outline

import (
	"testing"

	"github.com/trainctl/trainctl/core/train/ddp"
)

// Whatever the caps come to, the buckets fit the room that was kept for them.
func TestBucketsFitTheirRoom(t *testing.T) {
	for _, compress := range []string{"none", "bf16", "powersgd"} {
		for _, shard := range []string{ddp.ShardNone, ddp.ShardOptimizer} {
			s := resnet18()
			s.DDP.Compress, s.DDP.BucketCapMB, s.DDP.Shard = compress, ddp.AutoCap, shard
			o := outlineOf(t, s, 7)
			for _, limit := range []int{0, 1, 1 << 10, 100 << 10, 1 << 20, 8 << 20, 1 << 40} {
				o.Buckets = o.assign(limit, 2*limit)
				m := o.Layout
				m.Place(s.DDP, o) // panics otherwise
			}
		}
	}
}

// Ranks that divide the optimizer's state have equal parts of it, whatever the parameters are.
func TestShardsAreEqual(t *testing.T) {
	s := resnet18()
	s.DDP.Shard = ddp.ShardOptimizer
	for _, world := range []int{2, 3, 8, 64} {
		o := outlineOf(t, s, world)
		all := 0
		for rank := range world {
			n := o.Owned(rank)
			if all += n; n > (11_173_962/world)*1001/1000 {
				t.Errorf("rank %d of %d has %d of 11173962 elements", rank, world, n)
			}
		}
		if all != 11_173_962 {
			t.Errorf("%d ranks have %d elements", world, all)
		}
	}
}
