package train

import (
	"context"
	"errors"
	"testing"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// Measured caps lead to the weights that any others do, in whatever form the
// gradients travel; ranks agree on the buckets and say why.
func TestMeasuredCapsChangeNothing(t *testing.T) {
	for _, compress := range []string{"none", "fp16", "powersgd"} {
		train := func(limit ddp.Cap) (hash string, buckets int) {
			var hashes [3]string
			var layouts [3]int
			told := 0
			errs := onRanks(t, 3, func(rank int, d *Deps) {
				s := &d.Settings
				s.Model = nn.Config{Name: "convnet"}
				s.DatasetOptions["shape"] = []int64{1, 12, 12}
				s.Train.MaxSteps, s.DDP.Compress, s.DDP.PowerSGDStart = 4, compress, 1
				s.DDP.BucketCapMB, s.DDP.FirstBucketMB = limit, 0.01
				s.DDP.SyncBatchNorm = compress == "fp16"
				if rank == 1 {
					d.Events.Add(event.Func(func(r event.Record) {
						if e, ok := r.Event.(*event.BucketsChosen); ok && e.PassMS > 0 && e.Buckets > 0 {
							told++
						}
					}))
				}
			}, func(ctx context.Context, d Deps) error {
				tr, err := Setup(ctx, d)
				if err != nil {
					return err
				}
				defer tr.Close()
				err = errors.Join(tr.Run(ctx), tr.device.Download())
				hashes[d.World.Rank], layouts[d.World.Rank] = ddp.Hash(tr.model.Values), tr.reducer.Buckets()
				return err
			})
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			if hashes[1] != hashes[0] || hashes[2] != hashes[0] || layouts[1] != layouts[0] || layouts[2] != layouts[0] {
				t.Errorf("%s: models %v, buckets %v", compress, hashes, layouts)
			}
			if measured := limit.IsAuto(); (told == 1) != measured {
				t.Errorf("%s, caps %v: told %d times", compress, limit, told)
			}
			return hashes[0], layouts[0]
		}
		each, n := train(0.01)
		if auto, _ := train(ddp.AutoCap); auto != each || n < 2 {
			t.Errorf("%s: model %.12s with measured caps, %.12s with %d buckets", compress, auto, each, n)
		}
	}
}
