package sdk

import (
	"context"
	"encoding/json"
	"time"

	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/tensor"
)

// The calls of the kinds over gRPC, and the inline data plane.

// answer runs f as one call of the instance and returns its reply. ok says whether
// plugins of this kind support the call.
func answer[R any](s *server, ok bool, call string, f func() (*R, error)) (reply *R, err error) {
	if err := s.supports(ok, call); err != nil {
		return nil, err
	}
	err = s.call(func() error {
		reply, err = f()
		return err
	})
	return reply, err
}

// answerOpen is answer for the call that opens the instance. f gets the checked options and
// returns what the instance was opened with.
func answerOpen[R any](s *server, ok bool, call string, options []byte, f func(Options) (*R, *opened, error)) (*R, error) {
	return answer(s, ok, call, func() (*R, error) {
		checked, err := decodeOptions(s.info.Options, options)
		if err != nil {
			return nil, err
		}
		reply, open, err := f(checked)
		if err != nil {
			return nil, err
		}
		s.opened.Store(open)
		return reply, nil
	})
}

func (s *server) supports(ok bool, call string) error {
	if ok {
		return nil
	}
	return protocolError("%s plugin does not support the call %s", s.info.Kind.Phrase(), call)
}

// OpenBackend implements pb.PluginServer.
func (s *server) OpenBackend(ctx context.Context, r *pb.OpenBackendRequest) (*pb.OpenBackendReply, error) {
	return answerOpen(s, s.backend != nil, "OpenBackend", r.OptionsJson, func(options Options) (*pb.OpenBackendReply, *opened, error) {
		group, err := groupFromProto(r)
		if err != nil {
			return nil, nil, err
		}
		err = s.backend.Open(ctx, group, options)
		return &pb.OpenBackendReply{}, &opened{timeout: group.Timeout, world: group.WorldSize, channels: group.Channels}, err
	})
}

// Listen implements pb.PluginServer.
func (s *server) Listen(ctx context.Context, _ *pb.ListenRequest) (*pb.ListenReply, error) {
	return answer(s, s.backend != nil, "Listen", func() (*pb.ListenReply, error) {
		endpoint, err := s.backend.Listen(ctx)
		return &pb.ListenReply{Endpoint: endpoint}, err
	})
}

// Connect implements pb.PluginServer.
func (s *server) Connect(ctx context.Context, r *pb.ConnectRequest) (*pb.ConnectReply, error) {
	return answer(s, s.backend != nil, "Connect", func() (*pb.ConnectReply, error) {
		return &pb.ConnectReply{}, s.backend.Connect(ctx, r.Endpoints)
	})
}

// OpenDataset implements pb.PluginServer.
func (s *server) OpenDataset(ctx context.Context, r *pb.OpenDatasetRequest) (*pb.OpenDatasetReply, error) {
	return answerOpen(s, s.dataset != nil, "OpenDataset", r.OptionsJson, func(options Options) (*pb.OpenDatasetReply, *opened, error) {
		spec, err := s.dataset.Open(ctx, DatasetRequest{
			Options: options, Rank: int(r.Rank), LocalRank: int(r.LocalRank), WorldSize: int(r.WorldSize),
			Seed: r.Seed, Validation: r.TrainClasses, HeldOut: r.HeldOut, Log: s.log,
		})
		reply := spec.toProto()
		if c, ok := s.dataset.(DatasetClasses); ok && r.TrainClasses && err == nil {
			reply.TrainClasses = c.TrainClasses()
		}
		return reply, &opened{timeout: time.Duration(r.TimeoutNs), world: int(r.WorldSize), spec: spec}, err
	})
}

// Policy implements pb.PluginServer.
func (s *server) Policy(ctx context.Context, r *pb.PolicyRequest) (*pb.PolicyReply, error) {
	return answerOpen(s, s.precision != nil, "Policy", r.OptionsJson, func(options Options) (*pb.PolicyReply, *opened, error) {
		policy, err := s.precision.Policy(ctx, options)
		return policyToProto(&policy), &opened{}, err
	})
}

// State implements pb.PluginServer.
func (s *server) State(ctx context.Context, _ *pb.StateRequest) (*pb.StateReply, error) {
	return answer(s, s.precision != nil, "State", func() (*pb.StateReply, error) {
		state, err := s.precision.State(ctx)
		return &pb.StateReply{State: state}, err
	})
}

// Load implements pb.PluginServer.
func (s *server) Load(ctx context.Context, r *pb.LoadRequest) (*pb.LoadReply, error) {
	return answer(s, s.precision != nil, "Load", func() (*pb.LoadReply, error) {
		return &pb.LoadReply{}, s.precision.Load(ctx, r.State)
	})
}

// OpenObserver implements pb.PluginServer.
func (s *server) OpenObserver(ctx context.Context, r *pb.OpenObserverRequest) (*pb.OpenObserverReply, error) {
	return answerOpen(s, s.observer != nil, "OpenObserver", r.OptionsJson, func(options Options) (*pb.OpenObserverReply, *opened, error) {
		open := &opened{timeout: time.Duration(r.TimeoutNs)}
		ctx, cancel := open.deadline(ctx)
		defer cancel()
		req := ObserverRequest{Options: options, Name: r.Name, Dir: r.RunDir, Resume: r.Resume, Log: s.log}
		if err := json.Unmarshal(r.ConfigJson, &req.Config); err != nil && len(r.ConfigJson) > 0 {
			return nil, nil, protocolError("the configuration: %v", err)
		}
		resume, err := s.observer.Open(ctx, req)
		return &pb.OpenObserverReply{Resume: resume}, open, err
	})
}

// Observe implements pb.PluginServer.
func (s *server) Observe(ctx context.Context, r *pb.ObserveRequest) (*pb.ObserveReply, error) {
	return inline(ctx, s, s.observer != nil, "Observe", func(ctx context.Context, open *opened) (*pb.ObserveReply, error) {
		e := &EventBatch{Dropped: int(r.Dropped), Summary: r.SummaryJson}
		for _, line := range r.Events {
			record, err := decodeEvent(line)
			if err != nil {
				return nil, protocolError("an event: %v", err)
			}
			e.Records = append(e.Records, record)
		}
		return &pb.ObserveReply{}, s.within(ctx, open, func(ctx context.Context) error { return s.observer.Observe(ctx, e) })
	})
}

// inline runs f as one operation of the inline data plane. Its context also ends with
// an abort.
func inline[R any](ctx context.Context, s *server, ok bool, call string, f func(context.Context, *opened) (*R, error)) (*R, error) {
	if err := s.supports(ok, call); err != nil {
		return nil, err
	}
	open, err := s.mustBeOpen()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	return f(ctx, open)
}

// Collective implements pb.PluginServer: a collective with its bytes.
func (s *server) Collective(ctx context.Context, r *pb.CollectiveRequest) (*pb.CollectiveReply, error) {
	return inline(ctx, s, s.backend != nil, "Collective", func(ctx context.Context, open *opened) (*pb.CollectiveReply, error) {
		c := &Collective{
			Seq: r.Seq, Op: Op(r.Op), Reduce: ReduceOp(r.Reduce), DType: tensor.DType(r.Dtype),
			Count: int(r.Count), Root: int(r.Root), Bucket: int(r.Bucket), Channel: int(r.Channel),
		}
		if err := c.check(open, r.Count); err != nil {
			return nil, err
		}
		if size := c.Size(open.world); size != len(r.Data) {
			return nil, protocolError("%v has %d bytes, not %d", c, size, len(r.Data))
		}
		c.Buf = tensor.Aligned(len(r.Data)) // protobuf's bytes may be unaligned
		copy(c.Buf, r.Data)
		if err := s.do(ctx, open, c); err != nil {
			return nil, err
		}
		return &pb.CollectiveReply{Data: c.Buf}, nil
	})
}

// Fill implements pb.PluginServer: a batch with its bytes.
func (s *server) Fill(ctx context.Context, r *pb.FillRequest) (*pb.FillReply, error) {
	return inline(ctx, s, s.dataset != nil, "Fill", func(ctx context.Context, open *opened) (*pb.FillReply, error) {
		if r.Split > uint32(Test) {
			return nil, protocolError("split %d", r.Split)
		}
		n := len(r.Indices)
		b := &Batch{
			Split: Split(r.Split), Epoch: int(r.Epoch), Seed: r.Seed, NoAugment: r.NoAugment, Indices: r.Indices,
			Input: tensor.Aligned(n * open.spec.Input.Bytes()), Target: tensor.Aligned(n * open.spec.Target.Bytes()),
		}
		if err := b.check(&open.spec); err != nil {
			return nil, err
		}
		if err := s.fill(ctx, open, b); err != nil {
			return nil, err
		}
		return &pb.FillReply{Input: b.Input, Target: b.Target}, nil
	})
}

// Update implements pb.PluginServer.
func (s *server) Update(ctx context.Context, r *pb.UpdateRequest) (*pb.UpdateReply, error) {
	return inline(ctx, s, s.precision != nil, "Update", func(ctx context.Context, _ *opened) (*pb.UpdateReply, error) {
		state, err := s.update(ctx, r.FoundInf)
		if err != nil {
			return nil, err
		}
		return &pb.UpdateReply{Scale: state.Scale, Skip: state.Skip, Skipped: state.Skipped}, nil
	})
}
