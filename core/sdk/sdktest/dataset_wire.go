package sdktest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// DatasetPlugin gives [DatasetOptions] instances that are plugin processes,
// one each, started by the host from a path (or a built-in name), with batches
// in shared memory, as in a user's run. The output of a failed check includes the last
// lines that the processes printed.
func DatasetPlugin(h *host.Host, plugin string) func(testing.TB) sdk.Dataset {
	return inProcesses(h, plugin, (*host.Host).StartDataset, func(p *host.Dataset, log *logTail) sdk.Dataset { return &remoteDataset{plugin: p, log: log} })
}

const (
	stepTimeout = 30 * time.Second // to start, to stop, and the default for a call
	hostMargin  = 10 * time.Second // for the host to kill a process that hangs
	wireBatch   = 256              // more than any check requests
)

// remoteDataset is a plugin process as an instance.
type remoteDataset struct {
	plugin   *host.Dataset
	log      *logTail
	prepared bool
	closed   bool
}

func (r *remoteDataset) Info() sdk.Info { return r.plugin.Info() }

func (r *remoteDataset) Open(ctx context.Context, req sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	return r.plugin.Open(ctx, req)
}

// Fill copies the batch out of the shared slot and overwrites it there, so
// that bytes of this batch cannot be mistaken for those of a later one.
func (r *remoteDataset) Fill(_ context.Context, b *sdk.Batch) error {
	if r.closed {
		return host.ErrClosed
	}
	if len(b.Indices) > wireBatch {
		return fmt.Errorf("batch of %d samples, at most %d are prepared for", len(b.Indices), wireBatch)
	}
	if err := r.prepare(); err != nil {
		return err
	}
	if err := r.plugin.RequestBatch(0, b); err != nil {
		return err
	}
	input, target, err := r.plugin.Wait(0)
	if err != nil {
		return err
	}
	if len(input) != len(b.Input) || len(target) != len(b.Target) {
		return errors.New("the host's slot has another size than the suite's")
	}
	copy(b.Input, input)
	copy(b.Target, target)
	clearWith(input, 0xa5)
	clearWith(target, 0xa5)
	return nil
}

func (r *remoteDataset) prepare() error {
	if r.prepared {
		return nil
	}
	r.prepared = true
	return r.plugin.Prepare(1, wireBatch)
}

func clearWith(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

func (r *remoteDataset) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	return closeProcess(r.plugin)
}
