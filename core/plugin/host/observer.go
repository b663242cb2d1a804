package host

import (
	"context"
	"encoding/json"
	"time"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
)

// Observer is an observer plugin in use. Its methods are called by one goroutine at a time.
type Observer struct {
	// Timeout bounds Open and each call of Observe; set before Open, 0 = half a minute. The
	// plugin knows it; one that has not returned a few seconds later hangs.
	Timeout time.Duration

	replaceable[*remoteObserver]
	opened *sdk.ObserverRequest // nil before Open; Resume is the reply of the process in use
}

// StartObserver starts an observer plugin: a built-in name or a path. The error is a
// *StartError.
func (h *Host) StartObserver(ctx context.Context, name string) (*Observer, error) {
	out := &Observer{Timeout: 30 * time.Second}
	err := out.launch(ctx, processes(h, sdk.KindObserver, name, func(p *plugin) (*remoteObserver, operate) { return &remoteObserver{p}, nil }))
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Open opens the plugin for a run.
func (o *Observer) Open(ctx context.Context, req sdk.ObserverRequest) error {
	return o.repeat(func(now *running[*remoteObserver]) error {
		if o.opened == nil {
			o.opened = &req
			return o.open(ctx, now)
		}
		return nil // restore has opened it
	})
}

// open opens a process.
func (o *Observer) open(ctx context.Context, now *running[*remoteObserver]) error {
	resume, err := now.ctl.open(ctx, o.opened, o.Timeout)
	if err == nil {
		o.opened.Resume = resume
	}
	return err
}

// Observe delivers lines of events.jsonl. dropped and summary are as in [sdk.EventBatch].
func (o *Observer) Observe(ctx context.Context, lines [][]byte, dropped int, summary []byte) error {
	return o.repeat(func(now *running[*remoteObserver]) error {
		return now.proc.timely(ctx, "observe", o.Timeout, func(ctx context.Context) error {
			_, err := now.proc.rpc.Observe(ctx, &pb.ObserveRequest{Events: lines, Dropped: uint64(dropped), SummaryJson: summary})
			return err
		})
	})
}

// repeat makes a call, and again after the plugin has been replaced.
func (o *Observer) repeat(call func(*running[*remoteObserver]) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.repeatWith(sdk.KindObserver, o.open, call)
}

// Resume is what the process in use returned when it was opened.
func (o *Observer) Resume() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.opened == nil {
		return ""
	}
	return o.opened.Resume
}

// Gone reports whether the process has died or hangs, and was not replaced.
func (o *Observer) Gone() bool { return o.now.Load().proc.failure() != nil }

// Close ends the plugin; when ctx ends, at once.
func (o *Observer) Close(ctx context.Context) error { return o.close(ctx) }

// remoteObserver calls an observer plugin over gRPC.
type remoteObserver struct{ p *plugin }

func (r *remoteObserver) open(ctx context.Context, req *sdk.ObserverRequest, limit time.Duration) (resume string, err error) {
	options, err := encodeOptions(req.Options)
	if err != nil {
		return "", err
	}
	config, err := json.Marshal(req.Config)
	if err != nil {
		return "", err
	}
	err = r.p.timely(ctx, "open", limit, func(ctx context.Context) error {
		reply, err := r.p.rpc.OpenObserver(ctx, &pb.OpenObserverRequest{
			OptionsJson: options, Name: req.Name, RunDir: req.Dir, ConfigJson: config, TimeoutNs: int64(limit), Resume: req.Resume,
		})
		resume = reply.GetResume()
		return err
	})
	return resume, err
}
