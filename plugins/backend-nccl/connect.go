package nccl

import (
	"context"
	"fmt"

	"github.com/trainctl/trainctl/plugins/internal/instance"
)

// Listen says which GPU and which NCCL this rank has. Rank 0 also makes the
// communicator's id and opens the coordinator.
func (b *Backend) Listen(ctx context.Context) ([]byte, error) {
	if err := b.life.BeginOpen(b.device != nil); err != nil {
		return nil, err
	}
	defer b.life.End()
	e := endpoint{Endpoint: instance.Endpoint{Version: endpointVersion, Rank: b.group.Rank}, NCCL: b.version, Channels: len(b.channels),
		Device: b.device.uuid, Bus: b.device.bus, Host: thisHost(), Name: b.device.name}
	var err error
	if e.Port, err = b.member.Listen(ctx, b.set.Ports, b.log()); err != nil {
		return nil, fmt.Errorf("backend nccl: %w", err)
	}
	if b.group.Rank != 0 {
		return instance.Encode(e), nil
	}
	if err := b.thread.Run(func() (err error) { e.IDs, err = b.channels.ids(); return err }, b.life.Context); err != nil {
		return nil, fmt.Errorf("backend nccl: %w", err)
	}
	return instance.Encode(e), nil
}

// Connect checks that the ranks are compatible, waits for all at the coordinator, and joins
// NCCL's communicators.
func (b *Backend) Connect(ctx context.Context, endpoints [][]byte) error {
	if err := b.life.BeginOpen(b.device != nil); err != nil {
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
	ctx, cancel := context.WithTimeout(ctx, b.set.Connect)
	defer cancel()
	if err := b.member.Join(ctx, all[0].Port); err != nil {
		return err
	}
	if err := b.thread.Run(func() error { return b.join(ctx, all[0].IDs) }, ctx, b.life.Context); err != nil {
		return fmt.Errorf("backend nccl: joining the communicator: %w", err)
	}
	b.connected = true
	return nil
}

// join makes the communicators, or aborts them after an error.
func (b *Backend) join(ctx context.Context, ids [][]byte) error {
	notAll := func([]int) error {
		return fmt.Errorf("not all ranks joined within %v: %w", b.set.Connect, context.DeadlineExceeded)
	}
	err := b.channels.start(b.group.WorldSize, b.group.Rank, ids, b.member.Guard(ctx, 0, notAll))
	if err != nil {
		b.abort()
	}
	return err
}
