// Command wrong is a backend plugin for tests: tcp, except that one rank's sums
// of gradients are off by one unit in the last place in one step.
package main

import (
	"context"
	"math"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	tcp "github.com/trainctl/trainctl/plugins/backend-tcp"
)

type wrong struct {
	*tcp.Backend
	mine       bool
	step, done int64
}

// Info is that of tcp, with options of who is wrong and when.
func (w *wrong) Info() sdk.Info {
	info := w.Backend.Info()
	info.Name = "wrong"
	info.Options = append(info.Options,
		sdk.Option{Name: "wrong_rank", Type: sdk.Int, Required: true, Doc: "the rank whose sums are wrong"},
		sdk.Option{Name: "wrong_step", Type: sdk.Int, Required: true, Doc: "the step in which they are, from 1"})
	return info
}

// Open takes note of the options.
func (w *wrong) Open(ctx context.Context, g sdk.Group, o sdk.Options) error {
	w.mine, w.step = int64(g.Rank) == o.Int("wrong_rank"), o.Int("wrong_step")
	return w.Backend.Open(ctx, g, o)
}

// Do is tcp's, but for the last bits of the first bucket.
func (w *wrong) Do(ctx context.Context, c *sdk.Collective) error {
	if err := w.Backend.Do(ctx, c); err != nil || c.Op != sdk.OpAllReduce || c.Bucket != 0 {
		return err
	}
	if w.done++; w.mine && w.done == w.step {
		v := tensor.View[float32](c.Buf)
		for i := range v {
			v[i] = math.Nextafter32(v[i], 1)
		}
	}
	return nil
}

func main() {
	sdk.Serve(sdk.Plugin{Backend: func() sdk.Backend { return &wrong{Backend: tcp.New()} }})
}
