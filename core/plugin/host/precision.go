package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
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

	replaceable[precisionControl]
	past  precisionPast
	op    operation
	scale sdk.ScaleState // result of the update in progress
}

// precisionPast is what brings another process to the state of the one in use.
type precisionPast struct {
	options sdk.Options
	policy  *sdk.Policy        // nil before Policy
	state   map[string]float64 // nil: as after Policy
	updates []bool             // since then; true where the gradients had overflowed
}

// maxUpdates is how many updates are repeated at most.
const maxUpdates = 1024

// since makes state the one that later updates start from.
func (p *precisionPast) since(state map[string]float64) {
	p.state, p.updates = maps.Clone(state), p.updates[:0]
}

type precisionControl interface {
	Policy(ctx context.Context, options sdk.Options) (sdk.Policy, error)
	State(ctx context.Context) (map[string]float64, error)
	Load(ctx context.Context, state map[string]float64) error
}

// StartPrecision starts a precision plugin: a built-in name or a path. The
// error is a *StartError.
func (h *Host) StartPrecision(ctx context.Context, name string) (*Precision, error) {
	if b := h.inRank(sdk.KindPrecision, name); b != nil {
		return InProcessPrecision(b.Plugin.Precision()), nil
	}
	start := processes(h, sdk.KindPrecision, name, func(p *plugin) (precisionControl, operate) {
		r := &remotePrecision{p}
		return r, r.update
	})
	out := &Precision{}
	err := out.launch(ctx, func(ctx context.Context) (*running[precisionControl], error) {
		now, err := start(ctx)
		if err == nil {
			now.queue.limit(updateTimeout + margin)
		}
		return now, err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Failed returns an error if the plugin has died or hangs and could not be replaced,
// without a call to it; nil while it can be used.
func (p *Precision) Failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	proc := p.now.Load().proc
	if proc == nil || proc.failure() == nil {
		return nil
	}
	return p.replace(sdk.KindPrecision, proc.error("between steps", proc.failure()), p.restore)
}

// repeat makes a call, and again after the plugin has been replaced. p.mu is held.
func (p *Precision) repeat(call func(*running[precisionControl]) error) error {
	return p.repeatWith(sdk.KindPrecision, p.restore, call)
}

// restore brings another process to the state of the one before.
func (p *Precision) restore(ctx context.Context, next *running[precisionControl]) error {
	if p.past.policy == nil {
		return nil
	}
	if p.Timeout > 0 {
		next.queue.limit(p.Timeout + margin)
	}
	policy, err := next.ctl.Policy(ctx, p.past.options)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(policy, *p.past.policy) {
		return next.proc.error("policy", errors.New("another process of the same program returned another policy for the same options; fix: Policy must depend on its options alone"))
	}
	if p.past.state != nil {
		if err := next.ctl.Load(ctx, p.past.state); err != nil {
			return err
		}
	}
	for _, foundInf := range p.past.updates {
		if _, err := p.update(next, foundInf); err != nil {
			return err
		}
	}
	return nil
}

// Policy implements [Scaler].
func (p *Precision) Policy(ctx context.Context, options sdk.Options) (policy sdk.Policy, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.past.options = options
	err = p.repeat(func(now *running[precisionControl]) error {
		if p.Timeout > 0 {
			now.queue.limit(p.Timeout + margin)
		}
		policy, err = now.ctl.Policy(ctx, options)
		return err
	})
	if err != nil {
		return policy, err
	}
	p.past.policy = &policy
	p.past.since(nil)
	return policy, p.checkCasts(policy.Casts)
}

// checkCasts rejects a policy with a cast of an unknown operation: a misspelt name
// would silently leave the operation in another type.
func (p *Precision) checkCasts(casts map[string]sdk.Cast) error {
	for _, name := range slices.Sorted(maps.Keys(casts)) {
		if slices.Contains(op.Names(), graph.Op(name)) {
			continue
		}
		return &StartError{Kind: sdk.KindPrecision, Name: p.Info().Name,
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
	var scale sdk.ScaleState
	err := p.repeat(func(now *running[precisionControl]) (err error) {
		scale, err = p.update(now, foundInf)
		return err
	})
	if err == nil && p.replaces() {
		err = p.note(ctx, foundInf)
	}
	return scale, err
}

// update makes one update. p.mu is held.
func (p *Precision) update(now *running[precisionControl], foundInf bool) (sdk.ScaleState, error) {
	p.op = operation{code: pb.OpUpdate, foundInf: foundInf}
	ticket, err := now.queue.submit(&p.op)
	if err != nil {
		return sdk.ScaleState{}, err
	}
	p.scale = sdk.ScaleState{}
	if err := now.queue.wait(ticket, &p.scale); err != nil {
		return p.scale, err
	}
	if err := checkScale(p.scale.Scale); err != nil {
		return p.scale, &PluginError{Kind: sdk.KindPrecision, Name: now.info.Name, PID: p.PID(), Phase: "update", Cause: err}
	}
	return p.scale, nil
}

// note adds an update to those that another process would repeat, and asks for the
// state when there are many. p.mu is held.
func (p *Precision) note(ctx context.Context, foundInf bool) error {
	p.past.updates = append(p.past.updates, foundInf)
	if len(p.past.updates) < maxUpdates {
		return nil
	}
	_, err := p.state(ctx)
	return err
}

// State implements [Scaler].
func (p *Precision) State(ctx context.Context) (map[string]float64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state(ctx)
}

// state asks for the state, which becomes the one that another process starts from.
// p.mu is held.
func (p *Precision) state(ctx context.Context) (state map[string]float64, err error) {
	err = p.repeat(func(now *running[precisionControl]) error {
		state, err = now.ctl.State(ctx)
		return err
	})
	if err == nil {
		p.past.since(state)
	}
	return state, err
}

// Load implements [Scaler].
func (p *Precision) Load(ctx context.Context, state map[string]float64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.repeat(func(now *running[precisionControl]) error { return now.ctl.Load(ctx, state) })
	if err == nil {
		p.past.since(state)
	}
	return err
}

// Close implements [Scaler].
func (p *Precision) Close(ctx context.Context) error {
	now := p.now.Load()
	if now.proc != nil {
		return p.close(ctx)
	}
	now.queue.close()
	return now.ctl.(*localPrecision).Close()
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
	out := &Precision{}
	out.now.Store(&running[precisionControl]{info: l.info, ctl: l, queue: l.queue(l.update)})
	return out
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
