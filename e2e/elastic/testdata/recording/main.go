// Command recording is a data set plugin for tests: synthetic, except that it writes
// down which training samples it served, and may stop serving.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets/synthetic"
)

type recording struct {
	*synthetic.Dataset
	file *os.File
	left int64 // samples to serve; negative: any number
}

// Info is that of synthetic, with options of where to write and when to stop.
func (r *recording) Info() sdk.Info {
	info := r.Dataset.Info()
	info.Name, info.Options = "recording", append(info.Options, options...)
	return info
}

var options = []sdk.Option{
	{Name: "folder", Type: sdk.String, Required: true, Doc: "folder of the record, which exists"},
	{Name: "record", Type: sdk.String, Required: true, Doc: "name of the record, to which the rank at the start is appended, and the process ID if another process had it"},
	{Name: "serve", Type: sdk.Int, Default: int64(-1), Doc: "samples to serve, before the first batch that is never served"},
	{Name: "serve_rank", Type: sdk.Int, Default: int64(-1), Doc: "the rank that stops to serve; -1: all"},
}

// Open begins the record.
func (r *recording) Open(ctx context.Context, req sdk.DatasetRequest) (spec sdk.DatasetSpec, err error) {
	r.left = req.Options.Int("serve")
	if of := req.Options.Int("serve_rank"); of >= 0 && of != int64(req.Rank) {
		r.left = -1
	}
	place := cmp.Or(os.Getenv("RANK"), fmt.Sprint(req.Rank)) // one that joins does not know its rank yet
	path := fmt.Sprintf("%s-%s", filepath.Join(req.Options.String("folder"), req.Options.String("record")), place)
	if _, err := os.Stat(path); err == nil { // another process had this rank
		path += fmt.Sprintf("-%d", os.Getpid())
	}
	if r.file, err = os.Create(path); err != nil {
		return spec, err
	}
	return r.Dataset.Open(ctx, req)
}

// Fill is synthetic's. Each line of the record is an epoch and a sample.
func (r *recording) Fill(ctx context.Context, b *sdk.Batch) error {
	if b.Split != sdk.Train {
		return r.Dataset.Fill(ctx, b)
	}
	if r.left >= 0 && r.left < int64(len(b.Indices)) {
		<-ctx.Done()
		return ctx.Err()
	}
	r.left -= int64(len(b.Indices))
	for _, i := range b.Indices {
		if _, err := fmt.Fprintln(r.file, b.Epoch, i); err != nil {
			return err
		}
	}
	return r.Dataset.Fill(ctx, b)
}

func main() {
	sdk.Serve(sdk.Plugin{Dataset: func() sdk.Dataset { return &recording{Dataset: synthetic.New()} }})
}
