// Command spiked is a data set plugin for tests: synthetic, except that one
// training sample is far beyond what half precision can hold.
package main

import (
	"context"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/datasets/synthetic"
)

// sample is the index of the spiked sample.
const sample = 21

type spiked struct{ *synthetic.Dataset }

// Info is that of synthetic, which has the same options.
func (s spiked) Info() sdk.Info {
	info := s.Dataset.Info()
	info.Name = "spiked"
	return info
}

// Fill is synthetic's, with a spike.
func (s spiked) Fill(ctx context.Context, b *sdk.Batch) error {
	if err := s.Dataset.Fill(ctx, b); err != nil || b.Split != sdk.Train {
		return err
	}
	x := tensor.View[float32](b.Input)
	for i, index := range b.Indices {
		if index == sample {
			x[i*len(x)/len(b.Indices)] = 1e30
		}
	}
	return nil
}

func main() {
	sdk.Serve(sdk.Plugin{Dataset: func() sdk.Dataset { return spiked{synthetic.New()} }})
}
