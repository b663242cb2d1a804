package sdktest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	_ "github.com/trainctl/trainctl/core/engine/op/activation" // defines activations
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// PrecisionOptions say what the precision suite runs on.
type PrecisionOptions struct {
	// New returns an instance before Policy was called, in this process or, with
	// [PrecisionPlugin], in another.
	New func(t testing.TB) sdk.Precision

	// Options is the plugin's table as a user would write it.
	Options map[string]any

	// Refused are tables that must be refused, by the key that the error must
	// name. Missing keys are taken from Options.
	Refused map[string]map[string]any

	// Timeout bounds each check, which may make thousands of calls; default 3 minutes.
	Timeout time.Duration

	// CallTimeout bounds each call; default 30 s.
	CallTimeout time.Duration
}

// Precision runs the conformance suite for precision plugins, see [sdk.Precision].
func Precision(t *testing.T, o PrecisionOptions) {
	t.Helper()
	runChecks(t, o.Timeout, precisionChecks, func(t testing.TB) *precisionSuite { return &precisionSuite{PrecisionOptions: o, t: t} })
}

var precisionChecks = []suiteCheck[*precisionSuite]{
	{"Info is complete", checkPrecisionInfo},
	{"names the key of a wrong option", checkPrecisionRefused},
	{"Policy is valid", checkPolicy},
	{"Policy is the same on all ranks", checkPolicies},
	{"loss scale is the same on all ranks", checkScales},
	{"skips exactly the overflowed steps", checkSkips},
	{"continues from a loaded state", checkState},
	{"closes in every state", checkPrecisionClose},
}

type precisionSuite struct {
	PrecisionOptions
	processes
	t testing.TB
}

// instance returns a new instance with bounded calls.
func (s *precisionSuite) instance() sdk.Precision {
	p, call := s.New(s.t), orDefault(s.CallTimeout, stepTimeout)
	if r, ok := p.(*remotePrecision); ok {
		call = s.remote(r.log, &r.Timeout, call)
	}
	return &timedPrecision{Precision: p, timed: timed{limit: call}}
}

func checkPrecisionInfo(_ context.Context, s *precisionSuite) error {
	return constantInfo(s.instance(), sdk.KindPrecision)
}

func checkPrecisionRefused(ctx context.Context, s *precisionSuite) error {
	return refused(s.Refused, func(table map[string]any) error {
		_, _, err := s.ask(ctx, table)
		return err
	})
}

// ask makes an instance and calls Policy with a table.
func (s *precisionSuite) ask(ctx context.Context, table map[string]any) (sdk.Precision, sdk.Policy, error) {
	p := s.instance()
	s.t.Cleanup(func() { _ = p.Close() })
	options, problems := sdk.CheckOptions("", p.Info().Options, merged(s.Options, table))
	if err := problems.Err(); err != nil {
		return nil, sdk.Policy{}, err
	}
	policy, err := p.Policy(ctx, options)
	if err != nil {
		err = fmt.Errorf("Policy: %w", err)
	}
	return p, policy, err
}

var halves = []tensor.DType{tensor.F16, tensor.BF16}

func checkPolicy(ctx context.Context, s *precisionSuite) error {
	_, p, err := s.ask(ctx, nil)
	if err != nil {
		return err
	}
	var all []error
	complain := func(format string, args ...any) { all = append(all, fmt.Errorf("Policy: "+format, args...)) }
	if p.Name == "" {
		complain("no Name")
	}
	if p.Params != tensor.F32 && !slices.Contains(halves, p.Params) {
		complain("Params is %v, want f32 or a half type", p.Params)
	}
	if p.Lower != tensor.Invalid && !slices.Contains(halves, p.Lower) {
		complain("Lower is %v, want a half type, or none without casts", p.Lower)
	}
	if p.Lower == tensor.Invalid && slices.Contains(slices.Collect(maps.Values(p.Casts)), sdk.CastLower) {
		complain("Casts has casts to the lower type, but Lower is not set")
	}
	for name := range p.Casts {
		if !slices.Contains(op.Names(), graph.Op(name)) {
			complain("Casts has %q, which is not an operation; the operations are %v", name, op.Names())
		}
	}
	if p.MasterWeights && p.Params == tensor.F32 {
		complain("MasterWeights is set, but Params is float32 already")
	}
	if !scale(p.Scale) {
		complain("Scale is %v, want a positive number; use 1 for no scaling", p.Scale)
	}
	return errors.Join(all...)
}

func scale(v float64) bool { return v > 0 && !math.IsInf(v, 0) }

func checkPolicies(ctx context.Context, s *precisionSuite) error {
	_, a, err := s.ask(ctx, nil)
	if err != nil {
		return err
	}
	_, b, err := s.ask(ctx, nil)
	if err != nil {
		return err
	}
	if diff := difference(a, b); diff != "" {
		return fmt.Errorf("two instances differ:\n%s", diff)
	}
	return nil
}

// overflows is a run with rare infinities, then many, then none for longer than
// the usual 2000 good steps after which a scale grows.
func overflows() []bool {
	r := rand.New(rand.NewPCG(suiteSeed, 0))
	var out []bool
	for _, phase := range []struct {
		steps int
		often float64
	}{{200, 0.05}, {200, 0.7}, {2200, 0}} {
		for range phase.steps {
			out = append(out, r.Float64() < phase.often)
		}
	}
	return out
}

func checkScales(ctx context.Context, s *precisionSuite) error {
	var traces [2][]sdk.ScaleState
	for i := range traces {
		p, _, err := s.ask(ctx, nil)
		if err != nil {
			return err
		}
		if traces[i], err = follow(ctx, p, overflows()); err != nil {
			return err
		}
	}
	return sameTrace(traces[0], traces[1])
}

func follow(ctx context.Context, p sdk.Precision, found []bool) (out []sdk.ScaleState, err error) {
	for i, f := range found {
		state, err := p.Update(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("update %d: %w", i, err)
		}
		if !scale(state.Scale) {
			return nil, fmt.Errorf("update %d gave the scale %v", i, state.Scale)
		}
		out = append(out, state)
	}
	return out, nil
}

func sameTrace(a, b []sdk.ScaleState) error {
	for i := range a {
		if a[i] != b[i] {
			return fmt.Errorf("after %d equal updates one instance has %+v, the other %+v", i+1, a[i], b[i])
		}
	}
	return nil
}

func checkSkips(ctx context.Context, s *precisionSuite) error {
	p, policy, err := s.ask(ctx, nil)
	if err != nil {
		return err
	}
	found := overflows()
	trace, err := follow(ctx, p, found)
	if err != nil {
		return err
	}
	row := uint64(0)
	for i, state := range trace {
		want := policy.Dynamic && found[i]
		if row++; !want {
			row = 0
		}
		if state.Skip != want || state.Skipped != row {
			return fmt.Errorf("update %d, infinities %v, dynamic %v: %+v, want Skip %v after %d in a row", i, found[i], policy.Dynamic, state, want, row)
		}
	}
	return nil
}

// checkState moves the state to another instance, as a checkpoint does, while the first one continues: after several
// consecutive steps that were not skipped, because a counter may be 0 after some of them, and in the middle of the
// long run of good steps, where the counter decides when the scale grows.
func checkState(ctx context.Context, s *precisionSuite) error {
	found := overflows()
	a, _, err := s.ask(ctx, nil)
	if err != nil {
		return err
	}
	var went []sdk.ScaleState
	var moved []reloaded
	for _, place := range moves(found) {
		trace, err := follow(ctx, a, found[len(went):place.at])
		if err != nil {
			return err
		}
		went = append(went, trace...)
		if place.precision, err = s.reload(ctx, a); err != nil {
			return err
		}
		moved = append(moved, place)
	}
	trace, err := follow(ctx, a, found[len(went):])
	if err != nil {
		return err
	}
	went = append(went, trace...)
	for _, place := range moved {
		loaded, err := follow(ctx, place.precision, found[place.at:place.end])
		if err != nil {
			return err
		}
		if err := sameTrace(went[place.at:place.end], loaded); err != nil {
			return fmt.Errorf("an instance that continued after %d updates and one that loaded its state there: %w", place.at, err)
		}
	}
	return nil
}

// reloaded is an instance that has the state that another one had after some updates.
type reloaded struct {
	precision sdk.Precision
	at, end   int // it is compared in the updates at ≤ i < end
}

// moves are where checkState moves the state. Each update is a call of another process, so only the last instance
// is followed to the end; the others until infinities are rare again.
func moves(found []bool) (out []reloaded) {
	for at := 100; len(out) < 3; at++ {
		if !found[at-1] {
			out = append(out, reloaded{at: at, end: 500})
		}
	}
	return append(out, reloaded{at: len(found) - 1200, end: len(found)})
}

// reload returns a new instance that has loaded the state of a.
func (s *precisionSuite) reload(ctx context.Context, a sdk.Precision) (sdk.Precision, error) {
	state, err := a.State(ctx)
	if err != nil {
		return nil, fmt.Errorf("State: %w", err)
	}
	b, _, err := s.ask(ctx, nil)
	if err != nil {
		return nil, err
	}
	if err := b.Load(ctx, state); err != nil {
		return nil, fmt.Errorf("Load of its own state %v: %w", state, err)
	}
	if again, err := b.State(ctx); err != nil || !maps.Equal(state, again) {
		return nil, fmt.Errorf("its state is %v after loading %v (%v)", again, state, err)
	}
	return b, nil
}

func checkPrecisionClose(ctx context.Context, s *precisionSuite) error {
	if err := s.instance().Close(); err != nil {
		return fmt.Errorf("Close before Policy: %w", err)
	}
	p, _, err := s.ask(ctx, nil)
	if err != nil {
		return err
	}
	return closesTwice(p)
}
