package nccl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/internal/instance"
)

// Listen says which GPU and which NCCL this rank has. Rank 0 also makes the
// communicator's id and opens the coordinator.
func (b *Backend) Listen(ctx context.Context) ([]byte, error) {
	if err := b.beginOpen(); err != nil {
		return nil, err
	}
	defer b.life.End()
	e := endpoint{Endpoint: instance.Endpoint{Version: endpointVersion, Rank: b.group.Rank}, NCCL: b.version, Channels: len(b.channels),
		Device: b.device.uuid, Bus: b.device.bus, Host: thisHost(), Name: b.device.name}
	if b.group.Rank != 0 {
		return instance.Encode(e), nil
	}
	if b.coordinator != nil {
		return nil, errors.New("backend nccl: Listen twice")
	}
	if err := b.thread.run(func() (err error) { e.IDs, err = b.channels.ids(); return err }, b.life.Context); err != nil {
		return nil, fmt.Errorf("backend nccl: %w", err)
	}
	if b.group.WorldSize > 1 {
		coordinator, err := openCoordinator(ctx, b.group, b.set.ports, b.log())
		if err != nil {
			return nil, fmt.Errorf("backend nccl: %w", err)
		}
		b.coordinator, e.Port = coordinator, coordinator.port()
	}
	return instance.Encode(e), nil
}

// Connect checks that the ranks are compatible, waits for all at the coordinator, and joins
// NCCL's communicators.
func (b *Backend) Connect(ctx context.Context, endpoints [][]byte) error {
	if err := b.beginOpen(); err != nil {
		return err
	}
	defer b.life.End()
	all, err := instance.ParseEndpoints[endpoint](endpoints, b.group.WorldSize, endpointVersion)
	if err != nil {
		return fmt.Errorf("backend nccl: %w", err)
	}
	if err := fit(all, b.set.shared); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.set.connect)
	defer cancel()
	if err := b.gather(ctx, all[0]); err != nil {
		return err
	}
	if err := b.thread.run(func() error { return b.join(ctx, all[0].IDs) }, ctx, b.life.Context); err != nil {
		return fmt.Errorf("backend nccl: joining the communicator: %w", err)
	}
	b.connected = true
	return nil
}

// gather connects to the coordinator and returns when every rank has.
func (b *Backend) gather(ctx context.Context, root endpoint) (err error) {
	if b.group.WorldSize == 1 {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.life.Context, func() { cancel(instance.ErrClosed) })()
	address := coordinatorAddress(b.group.MasterAddr, root.Port)
	if b.client, err = dial(ctx, b.group, address); err != nil {
		return fmt.Errorf("backend nccl: no connection with rank 0 at %s: %w", address, err)
	}
	return b.client.agree(ctx, b.life.Context, &sdk.Collective{Op: sdk.OpBarrier}, unreached)
}

func unreached(missing []int) error {
	names := make([]string, len(missing))
	for i, r := range missing {
		names[i] = fmt.Sprint(r)
	}
	return fmt.Errorf("backend nccl: no connection with rank %s: %w", strings.Join(names, ", "), context.DeadlineExceeded)
}

// join makes the communicators, or aborts them after an error.
func (b *Backend) join(ctx context.Context, ids [][]byte) error {
	notAll := func([]int) error {
		return fmt.Errorf("not all ranks joined within %v: %w", b.set.connect, context.DeadlineExceeded)
	}
	err := b.channels.start(b.group.WorldSize, b.group.Rank, ids, b.guard(ctx, 0, notAll))
	if err != nil {
		b.abort()
	}
	return err
}
