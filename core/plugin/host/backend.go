package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/plugin/flight"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
)

// Backend is a backend plugin in use; see [Collectives].
type Backend struct {
	launched[backendControl]
	host      *Host            // nil in process
	record    *flight.Recorder // of all processes; nil without a directory for it, and before Open
	placement sdk.Placement

	mu       sync.Mutex
	op       operation
	world    int
	channels int // 0 is 1
	timed    bool
}

// backendControl has the calls of sdk.Backend that do not go through the queue.
type backendControl interface {
	Open(ctx context.Context, group sdk.Group, options sdk.Options) error
	Attach(ctx context.Context, arena *sdk.Arena) error
	Listen(ctx context.Context) ([]byte, error)
	Connect(ctx context.Context, endpoints [][]byte) error
}

// StartBackend starts a backend: a built-in name or a path. The error is a
// *StartError.
func (h *Host) StartBackend(ctx context.Context, name string) (*Backend, error) {
	b := &Backend{host: h}
	err := b.launch(ctx, processes(h, sdk.KindBackend, name, func(p *plugin) (backendControl, operate) {
		r := &remoteBackend{p}
		return r, r.do
	}))
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Placement returns where the backend runs and why; Why is empty if there was no
// choice.
func (b *Backend) Placement() sdk.Placement {
	p := b.placement
	p.InProcess = b.start == nil
	return p
}

// Restart kills the running process, in whatever state it is, and starts a new
// process of the same program. When Restart returns, the old process is dead and no
// longer writes to the arenas. As after StartBackend, the caller then calls Open and
// Attach. Tickets of the old process are invalid. No other call may be in progress.
// In process, Restart is an error.
func (b *Backend) Restart(ctx context.Context) error {
	if b.start == nil {
		return fmt.Errorf("a backend in this process cannot be replaced: %w", errors.ErrUnsupported)
	}
	if old := b.now.Load(); old.proc.attached() {
		return fmt.Errorf("backend %s was attached by TRAINCTL_REATTACH, so it is not replaced: %w", old.info.Name, errors.ErrUnsupported)
	}
	b.record.Release()
	b.now.Load().kill(ctx)
	next, err := b.start(ctx)
	if err != nil {
		return err
	}
	b.now.Store(next)
	return nil
}

// Abort kills the running process, so that what waits for it fails with the cause. It may be
// called at any time, and does nothing in process.
func (b *Backend) Abort(cause error) {
	if b.start != nil {
		b.now.Load().proc.abort(cause)
	}
}

// Open implements [Collectives].
func (b *Backend) Open(ctx context.Context, group sdk.Group, options sdk.Options) error {
	now := b.now.Load()
	if err := now.ctl.Open(ctx, group, options); err != nil {
		return err
	}
	b.recordTo(now, group)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.world, b.channels = group.WorldSize, group.Channels
	if group.Timeout > 0 {
		now.queue.limit(group.Timeout + margin)
	}
	return nil
}

// recordTo begins the flight record, or continues it for another process.
func (b *Backend) recordTo(now *running[backendControl], group sdk.Group) {
	if b.host == nil || b.host.opts.FlightDir == nil {
		return
	}
	dir := b.host.opts.FlightDir()
	if dir == "" {
		return
	}
	if b.record == nil {
		var err error
		if place := b.host.opts.Place; place != nil {
			group.Rank = *place
		}
		if b.record, err = flight.NewRecorder(dir, group, now.info.Name); err != nil {
			b.host.opts.Log.Warn("the flight record cannot be written; the last operations will not be available", "plugin", now.info.Name, "cause", err)
			return
		}
	}
	b.record.Begin(now.proc.ring, group.Epoch)
	now.proc.onTick(b.record.Refresh)
}

// Attach implements [Collectives].
func (b *Backend) Attach(ctx context.Context, arena *sdk.Arena) error {
	now := b.now.Load()
	if arena.Device != nil && !now.info.DeviceArena {
		return fmt.Errorf("backend %s does not accept GPU memory, and arena %q is on a GPU: %w", now.info.Name, arena.Name, errors.ErrUnsupported)
	}
	return now.ctl.Attach(ctx, arena)
}

// Listen implements [Collectives].
func (b *Backend) Listen(ctx context.Context) ([]byte, error) { return b.now.Load().ctl.Listen(ctx) }

// Connect implements [Collectives].
func (b *Backend) Connect(ctx context.Context, endpoints [][]byte) error {
	return b.now.Load().ctl.Connect(ctx, endpoints)
}

// Submit implements [Collectives].
func (b *Backend) Submit(c *sdk.Collective) (ticket uint64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now.Load()
	if !now.info.Does(c.Op, c.DType) {
		return 0, unpublished(&now.info, c)
	}
	size := c.Size(b.world)
	b.op = operation{code: uint8(c.Op), call: *c, size: size, timed: b.timed}
	if c.Channel < 0 || c.Channel >= max(b.channels, 1) {
		return 0, fmt.Errorf("%v: channel %d of %d", c, c.Channel, max(b.channels, 1))
	}
	if err := b.op.findMemory(); err != nil {
		return 0, err
	}
	ticket, err = now.queue.submit(&b.op)
	if err == nil {
		b.record.Submit(ticket, &b.op.call, b.op.size)
	}
	return ticket, err
}

// unpublished rejects a call before the plugin sees it: a plugin that does not
// support the call might complete it and leave the buffer unchanged.
func unpublished(info *sdk.Info, c *sdk.Collective) error {
	return fmt.Errorf("backend %q does not publish what %v needs (Info.Ops, Info.DTypes): %w", info.Name, c, errors.ErrUnsupported)
}

// findMemory sets Buf from the arena; its errors are the caller's mistakes.
func (op *operation) findMemory() error {
	c := &op.call
	switch {
	case c.Op == sdk.OpBarrier:
		c.Buf = nil
		return nil
	case c.Arena != nil && c.Arena.Device != nil:
		return op.findDeviceMemory()
	case c.Arena != nil:
		mem := c.Arena.Bytes()
		if c.Offset < 0 || op.size < 0 || c.Offset > len(mem) || op.size > len(mem)-c.Offset {
			return fmt.Errorf("%v: %d bytes at offset %d are outside arena %q of %d bytes", c, op.size, c.Offset, c.Arena.Name, len(mem))
		}
		c.Buf = mem[c.Offset : c.Offset+op.size : c.Offset+op.size]
	case len(c.Buf) != op.size:
		return fmt.Errorf("%v needs %d bytes, Buf has %d", c, op.size, len(c.Buf))
	}
	return nil
}

// findDeviceMemory checks a call in an arena on a GPU.
func (op *operation) findDeviceMemory() error {
	c, m := &op.call, op.call.Arena.Device
	c.Buf = nil
	if c.Offset < 0 || op.size < 0 || c.Offset > m.Size || op.size > m.Size-c.Offset {
		return fmt.Errorf("%v: %d bytes at offset %d are outside arena %q of %d bytes", c, op.size, c.Offset, c.Arena.Name, m.Size)
	}
	if n := m.Done.Len(); c.Ready < 0 || c.Done < 0 || c.Ready > n || c.Done > n {
		return fmt.Errorf("%v: events %d and %d of arena %q, which has %d", c, c.Ready, c.Done, c.Arena.Name, n)
	}
	return nil
}

// Wait implements [Collectives].
func (b *Backend) Wait(ticket uint64) error {
	err := b.now.Load().queue.wait(ticket, nil)
	b.record.Wait(ticket, err)
	return err
}

// Timed enables spans for collectives that are submitted from now on.
func (b *Backend) Timed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timed = true
}

// Span returns when the backend worked on one of the last 64 collectives, including
// waiting for other ranks. It is false before the collective has ended, without
// Timed, and with a plugin that does not report it.
func (b *Backend) Span(ticket uint64) (begin, end time.Time, ok bool) {
	s, ok := b.now.Load().queue.span(ticket)
	return time.Unix(0, s.Begin), time.Unix(0, s.End), ok
}

// Close implements [Collectives].
func (b *Backend) Close(ctx context.Context) error {
	now := b.now.Load()
	if now.proc != nil {
		b.record.Release()
		err := now.proc.close(ctx, now.queue)
		if lost := b.record.Close(); err == nil {
			err = lost
		}
		return err
	}
	now.queue.close()
	return now.ctl.(*localBackend).Close()
}

// remoteBackend calls a backend over gRPC.
type remoteBackend struct{ p *plugin }

func (r *remoteBackend) Open(ctx context.Context, g sdk.Group, options sdk.Options) error {
	encoded, err := encodeOptions(options)
	if err != nil {
		return err
	}
	_, err = r.p.rpc.OpenBackend(ctx, &pb.OpenBackendRequest{
		JobId: g.JobID, Secret: g.Secret, Generation: int64(g.Generation), Epoch: int64(g.Epoch), Rank: int64(g.Rank), WorldSize: int64(g.WorldSize),
		LocalRank: int64(g.LocalRank), LocalSize: int64(g.LocalSize), TimeoutNs: int64(g.Timeout), MasterAddr: g.MasterAddr,
		Device: g.Device, Channels: int64(g.Channels),
		OptionsJson: encoded,
	})
	return r.p.error("open", err)
}

func (r *remoteBackend) Attach(ctx context.Context, arena *sdk.Arena) error {
	if arena.Device != nil {
		return r.attachDevice(ctx, arena)
	}
	if r.p.ring == nil {
		return nil
	}
	return r.p.error("attach", r.p.attach(ctx, arena.ID, arena.Name, arena.Arena))
}

// attachDevice passes GPU memory to the plugin and receives the plugin's events.
func (r *remoteBackend) attachDevice(ctx context.Context, arena *sdk.Arena) error {
	m := arena.Device
	m.Done = sdk.Events{} // set for an earlier process
	if r.p.ring == nil || m.Kind == sdk.HandleAddress {
		return fmt.Errorf("arena %q: the process has no shared memory, or the memory is an address of this process: %w", arena.Name, errors.ErrUnsupported)
	}
	if m.Kind == sdk.HandlePosixFD {
		if err := r.p.sendFile(ctx, uint64(arena.ID), m.File); err != nil {
			return r.p.error("attach", err)
		}
	}
	reply, err := r.p.rpc.AttachArena(ctx, &pb.AttachArenaRequest{Id: arena.ID, Name: arena.Name, Size: uint64(m.Size),
		Device: &pb.DeviceMemory{Uuid: m.UUID, Kind: string(m.Kind), Handle: m.Handle, Ready: m.Ready.Handles}})
	if err != nil {
		return r.p.error("attach", err)
	}
	done := sdk.Events{Handles: reply.Done}
	if err := done.Check(); err != nil {
		return r.p.error("attach", err)
	}
	if done.Len() > m.Ready.Len() {
		return r.p.error("attach", fmt.Errorf("the plugin created %d events, but the rank has %d", done.Len(), m.Ready.Len()))
	}
	m.Done = done
	return nil
}

func (r *remoteBackend) Listen(ctx context.Context) ([]byte, error) {
	reply, err := r.p.rpc.Listen(ctx, &pb.ListenRequest{})
	return reply.GetEndpoint(), r.p.error("listen", err)
}

func (r *remoteBackend) Connect(ctx context.Context, endpoints [][]byte) error {
	_, err := r.p.rpc.Connect(ctx, &pb.ConnectRequest{Endpoints: endpoints})
	return r.p.error("connect", err)
}

// do is the inline data plane: it sends the bytes and receives the result.
func (r *remoteBackend) do(ctx context.Context, op *operation, _ *sdk.ScaleState) error {
	c := &op.call
	if len(c.Buf) > pb.MaxMessage-4096 {
		return fmt.Errorf("%v: the inline data plane carries at most %d bytes at a time; use smaller buckets", c, pb.MaxMessage-4096)
	}
	reply, err := r.p.rpc.Collective(ctx, &pb.CollectiveRequest{
		Seq: c.Seq, Op: uint32(c.Op), Reduce: uint32(c.Reduce), Dtype: uint32(c.DType),
		Count: uint64(c.Count), Root: int64(c.Root), Bucket: int64(c.Bucket), Data: c.Buf, Channel: int64(c.Channel),
	})
	if err != nil {
		return err
	}
	if len(reply.Data) != len(c.Buf) {
		return fmt.Errorf("%v: %d bytes came back for %d", c, len(reply.Data), len(c.Buf))
	}
	copy(c.Buf, reply.Data)
	return nil
}

// localBackend is an instance in this process.
type localBackend struct {
	local[sdk.Backend]
	broken error // the first failure of a collective
}

// InProcessBackend runs an instance in this process: for tests, and for callers
// that accept that the rank dies with it.
func InProcessBackend(b sdk.Backend) *Backend {
	l := &localBackend{local: newLocal(sdk.KindBackend, b)}
	out := &Backend{}
	out.now.Store(&running[backendControl]{info: l.info, ctl: l, queue: l.queue(l.do)})
	return out
}

func (l *localBackend) Open(ctx context.Context, group sdk.Group, options sdk.Options) error {
	group.InProcess = true
	return l.call(func() error { return l.instance.Open(ctx, group, options) })
}

func (l *localBackend) Attach(ctx context.Context, arena *sdk.Arena) error {
	return l.call(func() error { return l.instance.Attach(ctx, arena) })
}

func (l *localBackend) Listen(ctx context.Context) ([]byte, error) {
	return get(&l.local, func() ([]byte, error) { return l.instance.Listen(ctx) })
}

func (l *localBackend) Connect(ctx context.Context, endpoints [][]byte) error {
	return l.call(func() error { return l.instance.Connect(ctx, endpoints) })
}

func (l *localBackend) do(ctx context.Context, op *operation, _ *sdk.ScaleState) error {
	if l.broken == nil {
		l.broken = l.instance.Do(ctx, &op.call)
	}
	return l.broken
}

// align is where slots and their parts begin.
const align = 64

var _ Collectives = (*Backend)(nil)
