package bench

import (
	"context"
	"runtime"
	"time"

	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// StepResult is what one operation of a training step takes.
type StepResult struct {
	Layer   string  `json:"layer"`
	Op      string  `json:"op"`
	P50     float64 `json:"p50_us"`
	FLOPs   int64   `json:"flops"` // as the definition counts them
	Bytes   int64   `json:"bytes"` // read and written at least
	GFLOPS  float64 `json:"gflops"`
	Floor   float64 `json:"floor_us"` // of one thread
	OfFloor float64 `json:"of_floor"` // Floor per P50
}

// StepReport shows where a training step spends its time.
type StepReport struct {
	Model   string       `json:"model"`
	Batch   int          `json:"batch"`
	Threads int          `json:"threads"`
	Machine Machine      `json:"machine"`
	Steps   []StepResult `json:"steps"`
}

// Steps runs a training plan on synthetic data for about the budget and measures
// each of its operations: forward, loss and backward of one rank, without
// optimizer, communication and data. threads is how many the device computes
// with; floors are those of as many cores.
func Steps(ctx context.Context, p *plan.Plan, dev plan.Device, m *Machine, threads int, budget time.Duration) ([]StepResult, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	prog, args, err := rehearsal(p, dev)
	if err != nil {
		return nil, err
	}
	defer prog.Close()
	runs, err := timeSteps(ctx, prog, args, budget)
	if err != nil {
		return nil, err
	}
	out := make([]StepResult, len(runs))
	for i, s := range p.Steps() {
		p50 := runs[i].percentile(0.5)
		floor := m.floor(work{typeOf(&s), s.FLOPs, s.Bytes, s.Written}) / time.Duration(max(1, threads))
		out[i] = StepResult{
			Layer: s.Layer, Op: string(s.Op), P50: micros(p50), FLOPs: s.FLOPs, Bytes: s.Bytes,
			GFLOPS: rate(float64(s.FLOPs), p50), Floor: micros(floor), OfFloor: float64(floor) / float64(max(1, p50)),
		}
	}
	return out, nil
}

// typeOf is the type of a step's first input, in which it multiplies.
func typeOf(s *plan.Step) tensor.DType {
	if len(s.In) == 0 {
		return tensor.F32
	}
	return s.In[0].Spec.DType
}

// timeSteps keeps the times of at least five whole runs, by step.
func timeSteps(ctx context.Context, prog *plan.Program, args plan.Args, budget time.Duration) ([]laps, error) {
	runs := make([]laps, len(prog.Plan().Steps()))
	run := func() plan.Result {
		i := 0
		return prog.Stepwise(args, func(_ *plan.Step, step func()) {
			start := time.Now()
			step()
			runs[i] = append(runs[i], time.Since(start))
			i++
		})
	}
	if r := run(); r.Err != nil {
		return nil, r.Err
	}
	for i := range runs {
		runs[i] = runs[i][:0]
	}
	for end := time.Now().Add(budget); len(runs[0]) < 5 || time.Now().Before(end); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		run()
	}
	return runs, nil
}

// rehearsal binds the plan to newly allocated memory, with initial weights and a
// synthetic batch.
func rehearsal(p *plan.Plan, dev plan.Device) (*plan.Program, plan.Args, error) {
	var st plan.State
	for _, s := range p.StateSpecs() {
		st.Tensors = append(st.Tensors, tensor.New(s.DType, s.Shape...))
	}
	for _, s := range p.GradSpecs() {
		st.Grads = append(st.Grads, tensor.New(s.DType, s.Shape...))
	}
	if err := nn.Initialize(nn.Config{}, p.Graph(), 1, st.Tensors); err != nil {
		return nil, plan.Args{}, err
	}
	prog, err := p.Bind(dev, st)
	if err != nil {
		return nil, plan.Args{}, err
	}
	input, target := p.Batches()
	return prog, plan.Args{Input: madeUp(input), Target: make([]byte, target.Bytes())}, nil
}

// madeUp are normally distributed numbers; integers are zero, which is a valid
// class and a valid index.
func madeUp(s tensor.Spec) []byte {
	out := make([]byte, s.Bytes())
	if !s.DType.Float() {
		return out
	}
	convert.Convert(s.DType, out, tensor.F32, tensor.Bytes(random(s.Shape.Elems())))
	return out
}

// total adds up the steps' times and floors in microseconds.
func (r *StepReport) total() (us, floor float64) {
	for _, s := range r.Steps {
		us += s.P50
		floor += s.Floor
	}
	return us, floor
}
