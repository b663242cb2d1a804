package host

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	_ "github.com/trainctl/trainctl/core/engine/op/activation" // defines activations
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
)

// updateTimeout bounds one update of the loss scale if Precision.Timeout is not set.
const updateTimeout = 30 * time.Second

// Precision is a precision plugin in use; see [Scaler].
type Precision struct {
	// Timeout bounds one update; set before Policy, 0 = half a minute.
	Timeout time.Duration

	info  sdk.Info
	ctl   precisionControl
	queue queue
	proc  *plugin // nil in process

	mu    sync.Mutex
	op    operation
	scale sdk.ScaleState // result of the update in progress
}

type precisionControl interface {
	Policy(ctx context.Context, options sdk.Options) (sdk.Policy, error)
	State(ctx context.Context) (map[string]float64, error)
	Load(ctx context.Context, state map[string]float64) error
}

// StartPrecision starts a precision plugin: a built-in name or a path. The
// error is a *StartError.
func (h *Host) StartPrecision(ctx context.Context, plugin string) (*Precision, error) {
	p, err := h.start(ctx, sdk.KindPrecision, plugin)
	if err != nil {
		return nil, err
	}
	r := &remotePrecision{p}
	out := &Precision{info: p.info, ctl: r, queue: p.queue(r.update), proc: p}
	out.queue.limit(updateTimeout + margin)
	return out, nil
}

// Info returns the plugin's Info.
func (p *Precision) Info() sdk.Info { return p.info }

// PID returns the id of the plugin's process, 0 in process.
func (p *Precision) PID() int { return p.proc.pid() }

// Failed returns an error if the plugin has died or hangs, without a call to it;
// nil while it can be used.
func (p *Precision) Failed() error {
	if p.proc == nil || p.proc.failure() == nil {
		return nil
	}
	return p.proc.error("between steps", p.proc.failure())
}

// Policy implements [Scaler].
func (p *Precision) Policy(ctx context.Context, options sdk.Options) (sdk.Policy, error) {
	policy, err := p.ctl.Policy(ctx, options)
	if err != nil {
		return policy, err
	}
	if p.Timeout > 0 {
		p.queue.limit(p.Timeout + margin)
	}
	return policy, p.checkCasts(policy.Casts)
}

// checkCasts rejects a policy with a cast of an unknown operation: a misspelt name
// would silently leave the operation in another type.
func (p *Precision) checkCasts(casts map[string]sdk.Cast) error {
	for _, name := range slices.Sorted(maps.Keys(casts)) {
		if slices.Contains(op.Names(), graph.Op(name)) {
			continue
		}
		return &StartError{Kind: sdk.KindPrecision, Name: p.info.Name,
			Problem: fmt.Sprintf("its policy casts %q, which is not an operation of trainctl", name),
			Help:    fmt.Sprintf("correct Casts in the plugin's Policy; the operations are %v", op.Names())}
	}
	return nil
}

// Update implements [Scaler]. It takes no context: the call ends with the plugin or
// after the timeout.
func (p *Precision) Update(ctx context.Context, foundInf bool) (sdk.ScaleState, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return sdk.ScaleState{}, err
	}
	p.op = operation{code: pb.OpUpdate, foundInf: foundInf}
	ticket, err := p.queue.submit(&p.op)
	if err != nil {
		return sdk.ScaleState{}, err
	}
	p.scale = sdk.ScaleState{}
	if err := p.queue.wait(ticket, &p.scale); err != nil {
		return p.scale, err
	}
	if err := checkScale(p.scale.Scale); err != nil {
		return p.scale, &PluginError{Kind: sdk.KindPrecision, Name: p.info.Name, PID: p.PID(), Phase: "update", Cause: err}
	}
	return p.scale, nil
}

// State implements [Scaler].
func (p *Precision) State(ctx context.Context) (map[string]float64, error) { return p.ctl.State(ctx) }

// Load implements [Scaler].
func (p *Precision) Load(ctx context.Context, state map[string]float64) error {
	return p.ctl.Load(ctx, state)
}

// Close implements [Scaler].
func (p *Precision) Close(ctx context.Context) error {
	if p.proc != nil {
		return p.proc.close(ctx, p.queue)
	}
	p.queue.close()
	return p.ctl.(*localPrecision).Close()
}

// remotePrecision calls a precision plugin over gRPC.
type remotePrecision struct{ p *plugin }

func (r *remotePrecision) Policy(ctx context.Context, options sdk.Options) (sdk.Policy, error) {
	encoded, err := encodeOptions(options)
	if err != nil {
		return sdk.Policy{}, err
	}
	reply, err := r.p.rpc.Policy(ctx, &pb.PolicyRequest{OptionsJson: encoded})
	if err != nil {
		return sdk.Policy{}, r.p.error("policy", err)
	}
	policy, err := policyFromProto(reply)
	return policy, r.p.error("policy", err)
}

func (r *remotePrecision) State(ctx context.Context) (map[string]float64, error) {
	reply, err := r.p.rpc.State(ctx, &pb.StateRequest{})
	return reply.GetState(), r.p.error("state", err)
}

func (r *remotePrecision) Load(ctx context.Context, state map[string]float64) error {
	_, err := r.p.rpc.Load(ctx, &pb.LoadRequest{State: state})
	return r.p.error("load", err)
}

func (r *remotePrecision) update(ctx context.Context, op *operation, scale *sdk.ScaleState) error {
	reply, err := r.p.rpc.Update(ctx, &pb.UpdateRequest{FoundInf: op.foundInf})
	if err != nil {
		return err
	}
	*scale = sdk.ScaleState{Scale: reply.Scale, Skip: reply.Skip, Skipped: reply.Skipped}
	return nil
}

// localPrecision is an instance in this process.
type localPrecision struct{ local[sdk.Precision] }

// InProcessPrecision runs an instance in this process.
func InProcessPrecision(p sdk.Precision) *Precision {
	l := &localPrecision{newLocal(sdk.KindPrecision, p)}
	return &Precision{info: l.info, ctl: l, queue: l.queue(l.update)}
}

func (l *localPrecision) Policy(ctx context.Context, options sdk.Options) (sdk.Policy, error) {
	return get(&l.local, func() (sdk.Policy, error) { return l.instance.Policy(ctx, options) })
}

func (l *localPrecision) State(ctx context.Context) (map[string]float64, error) {
	return get(&l.local, func() (map[string]float64, error) { return l.instance.State(ctx) })
}

func (l *localPrecision) Load(ctx context.Context, state map[string]float64) error {
	return l.call(func() error { return l.instance.Load(ctx, state) })
}

func (l *localPrecision) update(ctx context.Context, op *operation, scale *sdk.ScaleState) (err error) {
	*scale, err = l.instance.Update(ctx, op.foundInf)
	return err
}

var _ Scaler = (*Precision)(nil)
