package sdk

import (
	"context"
	"time"

	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/tensor"
)

// The calls of the three kinds over gRPC, and the inline data plane.

func (s *server) wants(ok bool, call string) error {
	if ok {
		return nil
	}
	return protocolError("a %s plugin does not support the call %s", s.info.Kind, call)
}

// OpenBackend implements pb.PluginServer.
func (s *server) OpenBackend(ctx context.Context, r *pb.OpenBackendRequest) (*pb.OpenBackendReply, error) {
	if err := s.wants(s.backend != nil, "OpenBackend"); err != nil {
		return nil, err
	}
	group, err := groupFromProto(r)
	if err != nil {
		return nil, err
	}
	options, err := decodeOptions(s.info.Options, r.OptionsJson)
	if err != nil {
		return nil, err
	}
	err = s.call(func() error { return s.backend.Open(ctx, group, options) })
	if err != nil {
		return nil, err
	}
	s.opened.Store(&opened{timeout: group.Timeout, world: group.WorldSize, channels: group.Channels})
	return &pb.OpenBackendReply{}, nil
}

// Listen implements pb.PluginServer.
func (s *server) Listen(ctx context.Context, _ *pb.ListenRequest) (*pb.ListenReply, error) {
	if err := s.wants(s.backend != nil, "Listen"); err != nil {
		return nil, err
	}
	out := &pb.ListenReply{}
	return out, s.call(func() (err error) {
		out.Endpoint, err = s.backend.Listen(ctx)
		return err
	})
}

// Connect implements pb.PluginServer.
func (s *server) Connect(ctx context.Context, r *pb.ConnectRequest) (*pb.ConnectReply, error) {
	if err := s.wants(s.backend != nil, "Connect"); err != nil {
		return nil, err
	}
	return &pb.ConnectReply{}, s.call(func() error { return s.backend.Connect(ctx, r.Endpoints) })
}

// OpenDataset implements pb.PluginServer.
func (s *server) OpenDataset(ctx context.Context, r *pb.OpenDatasetRequest) (*pb.OpenDatasetReply, error) {
	if err := s.wants(s.dataset != nil, "OpenDataset"); err != nil {
		return nil, err
	}
	options, err := decodeOptions(s.info.Options, r.OptionsJson)
	if err != nil {
		return nil, err
	}
	req := DatasetRequest{
		Options: options, Rank: int(r.Rank), LocalRank: int(r.LocalRank), WorldSize: int(r.WorldSize),
		Seed: r.Seed, Log: s.log,
	}
	open := &opened{timeout: time.Duration(r.TimeoutNs), world: req.WorldSize}
	err = s.call(func() (err error) {
		open.spec, err = s.dataset.Open(ctx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.opened.Store(open)
	return open.spec.toProto(), nil
}

// Policy implements pb.PluginServer.
func (s *server) Policy(ctx context.Context, r *pb.PolicyRequest) (*pb.PolicyReply, error) {
	if err := s.wants(s.precision != nil, "Policy"); err != nil {
		return nil, err
	}
	options, err := decodeOptions(s.info.Options, r.OptionsJson)
	if err != nil {
		return nil, err
	}
	var policy Policy
	err = s.call(func() (err error) {
		policy, err = s.precision.Policy(ctx, options)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.opened.Store(&opened{})
	return policyToProto(&policy), nil
}

// State implements pb.PluginServer.
func (s *server) State(ctx context.Context, _ *pb.StateRequest) (*pb.StateReply, error) {
	if err := s.wants(s.precision != nil, "State"); err != nil {
		return nil, err
	}
	out := &pb.StateReply{}
	return out, s.call(func() (err error) {
		out.State, err = s.precision.State(ctx)
		return err
	})
}

// Load implements pb.PluginServer.
func (s *server) Load(ctx context.Context, r *pb.LoadRequest) (*pb.LoadReply, error) {
	if err := s.wants(s.precision != nil, "Load"); err != nil {
		return nil, err
	}
	return &pb.LoadReply{}, s.call(func() error { return s.precision.Load(ctx, r.State) })
}

// Collective implements pb.PluginServer: a collective with its bytes.
func (s *server) Collective(ctx context.Context, r *pb.CollectiveRequest) (*pb.CollectiveReply, error) {
	if err := s.wants(s.backend != nil, "Collective"); err != nil {
		return nil, err
	}
	c := &Collective{
		Seq: r.Seq, Op: Op(r.Op), Reduce: ReduceOp(r.Reduce), DType: tensor.DType(r.Dtype),
		Count: int(r.Count), Root: int(r.Root), Bucket: int(r.Bucket), Channel: int(r.Channel), Buf: r.Data,
	}
	open, err := s.mustBeOpen()
	if err != nil {
		return nil, err
	}
	if err := c.check(open, r.Count); err != nil {
		return nil, err
	}
	if size := c.Size(open.world); size != len(r.Data) {
		return nil, protocolError("%v has %d bytes, not %d", c, size, len(r.Data))
	}
	aligned := tensor.Aligned(len(r.Data)) // protobuf's bytes may be unaligned
	copy(aligned, r.Data)
	c.Buf = aligned
	ctx, stop := s.joined(ctx)
	defer stop()
	if err := s.do(ctx, open, c); err != nil {
		return nil, err
	}
	return &pb.CollectiveReply{Data: c.Buf}, nil
}

// Fill implements pb.PluginServer: a batch with its bytes.
func (s *server) Fill(ctx context.Context, r *pb.FillRequest) (*pb.FillReply, error) {
	if err := s.wants(s.dataset != nil, "Fill"); err != nil {
		return nil, err
	}
	open, err := s.mustBeOpen()
	if err != nil {
		return nil, err
	}
	n := len(r.Indices)
	b := &Batch{
		Split: Split(r.Split), Epoch: int(r.Epoch), Seed: r.Seed, Indices: r.Indices,
		Input: tensor.Aligned(n * open.spec.Input.Bytes()), Target: tensor.Aligned(n * open.spec.Target.Bytes()),
	}
	if r.Split > uint32(Test) {
		return nil, protocolError("split %d", r.Split)
	}
	if err := b.check(&open.spec); err != nil {
		return nil, err
	}
	ctx, stop := s.joined(ctx)
	defer stop()
	if err := s.fill(ctx, open, b); err != nil {
		return nil, err
	}
	return &pb.FillReply{Input: b.Input, Target: b.Target}, nil
}

// Update implements pb.PluginServer.
func (s *server) Update(ctx context.Context, r *pb.UpdateRequest) (*pb.UpdateReply, error) {
	if err := s.wants(s.precision != nil, "Update"); err != nil {
		return nil, err
	}
	ctx, stop := s.joined(ctx)
	defer stop()
	state, err := s.update(ctx, r.FoundInf)
	if err != nil {
		return nil, err
	}
	return &pb.UpdateReply{Scale: state.Scale, Skip: state.Skip, Skipped: state.Skipped}, nil
}

// joined returns a context that ends with the call or with an abort.
func (s *server) joined(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}
