package outline

import (
	"testing"

	"github.com/trainctl/trainctl/core/train/ddp"
)

// Whatever the caps come to, the buckets fit the room that was kept for them.
func TestBucketsFitTheirRoom(t *testing.T) {
	for _, compress := range []string{"none", "bf16", "powersgd"} {
		s := resnet18()
		s.DDP.Compress, s.DDP.BucketCapMB = compress, ddp.AutoCap
		o := outlineOf(t, s, 2)
		for _, limit := range []int{0, 1, 1 << 10, 100 << 10, 1 << 20, 8 << 20, 1 << 40} {
			o.Buckets = ddp.Assign(o.Gradients, o.Plan.GradOrder(), limit, 2*limit)
			m := o.Layout
			m.Place(s.DDP, o) // panics otherwise
		}
	}
}
