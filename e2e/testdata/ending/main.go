// Command ending is a data set plugin for tests: synthetic, except that one
// rank's training data end, or are damaged, at a sample.
package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets/synthetic"
)

type ending struct {
	*synthetic.Dataset
	ends bool
	why  error
	at   int64
}

// Info is that of synthetic, with options of who ends and where.
func (e *ending) Info() sdk.Info {
	info := e.Dataset.Info()
	info.Name = "ending"
	info.Options = append(info.Options,
		sdk.Option{Name: "end_rank", Type: sdk.Int, Required: true, Doc: "the rank whose data end early"},
		sdk.Option{Name: "end_at", Type: sdk.Int, Required: true, Doc: "the first sample that it does not have"},
		sdk.Option{Name: "corrupt", Type: sdk.String, Default: "", Doc: "the file whose damage is why, instead of the end of the data"})
	return info
}

// Open takes note of the options.
func (e *ending) Open(ctx context.Context, req sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	e.ends, e.at = req.Options.Int("end_rank") == int64(req.Rank), req.Options.Int("end_at")
	e.why = sdk.ErrEndOfData
	if file := req.Options.String("corrupt"); file != "" {
		e.why = sdk.Corrupt(fmt.Errorf("%s: is damaged", file))
	}
	return e.Dataset.Open(ctx, req)
}

// Fill is synthetic's, until the end.
func (e *ending) Fill(ctx context.Context, b *sdk.Batch) error {
	if b.Split == sdk.Train && e.ends && slices.Max(b.Indices) >= e.at {
		return e.why
	}
	return e.Dataset.Fill(ctx, b)
}

func main() {
	sdk.Serve(sdk.Plugin{Dataset: func() sdk.Dataset { return &ending{Dataset: synthetic.New()} }})
}
