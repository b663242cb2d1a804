package membackend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/contract/contracttest"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// World is where the ranks of one or more jobs meet.
type World struct {
	mu   sync.Mutex
	jobs map[string]*job
}

// NewWorld returns an empty world.
func NewWorld() *World { return &World{jobs: map[string]*job{}} }

// New returns a backend for one rank of this world.
func (w *World) New() sdk.Backend { return &backend{world: w} }

// job is one process group.
type job struct {
	mu      sync.Mutex
	changed *sync.Cond
	calls   []*sdk.Collective // by rank, the calls that wait for their meeting
	done    []int             // by rank, collectives finished
	gone    []bool
	err     error // ends the group
}

type backend struct {
	world *World
	group sdk.Group
	job   *job
}

func (b *backend) Info() sdk.Info {
	return sdk.Info{
		Kind: sdk.KindBackend, Name: "mem", Version: "1.0.0", Summary: "ranks as goroutines of one process, for tests",
		DTypes: []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16,
			tensor.I8, tensor.U8, tensor.I16, tensor.I32, tensor.I64},
		Devices:     []string{"cpu"},
		Ops:         sdk.Ops(),
		Determinism: "bitwise",
	}
}

func (b *backend) Open(_ context.Context, group sdk.Group, _ sdk.Options) error {
	b.group = group
	key := fmt.Sprintf("%s/%d/%d", group.JobID, group.Generation, group.Epoch)
	b.world.mu.Lock()
	defer b.world.mu.Unlock()
	j := b.world.jobs[key]
	if j == nil {
		j = newJob(group.WorldSize)
		b.world.jobs[key] = j
	}
	if len(j.calls) != group.WorldSize || group.Rank < 0 || group.Rank >= group.WorldSize {
		return fmt.Errorf("backend mem: rank %d of %d does not fit the job of %d", group.Rank, group.WorldSize, len(j.calls))
	}
	b.job = j
	return nil
}

func newJob(world int) *job {
	j := &job{calls: make([]*sdk.Collective, world), done: make([]int, world), gone: make([]bool, world)}
	j.changed = sync.NewCond(&j.mu)
	return j
}

func (b *backend) Attach(context.Context, *sdk.Arena) error { return nil }

func (b *backend) Listen(context.Context) ([]byte, error) {
	if b.job == nil {
		return nil, errors.New("backend mem: Listen before Open")
	}
	return strconv.AppendInt(nil, int64(b.group.Rank), 10), nil
}

func (b *backend) Connect(_ context.Context, endpoints [][]byte) error {
	if len(endpoints) != b.group.WorldSize {
		return fmt.Errorf("backend mem: %d endpoints for a world of %d", len(endpoints), b.group.WorldSize)
	}
	return nil
}

func (b *backend) Close() error {
	if b.job == nil {
		return nil
	}
	b.job.mu.Lock()
	defer b.job.mu.Unlock()
	b.job.gone[b.group.Rank] = true
	b.job.changed.Broadcast()
	return nil
}

// Do leaves the call for the others. Whoever completes the meeting does the
// work for all.
func (b *backend) Do(ctx context.Context, c *sdk.Collective) error {
	j, me, start := b.job, b.group.Rank, time.Now()
	if len(c.Buf) != c.Size(b.group.WorldSize) {
		return fmt.Errorf("backend mem: %v: the buffer has %d bytes", c, len(c.Buf))
	}
	if _, ok := ctx.Deadline(); !ok && b.group.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, b.group.Timeout)
		defer cancel()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	defer context.AfterFunc(ctx, j.lookUp)()
	if j.err != nil {
		return j.err
	}
	if info := b.Info(); !info.Does(c.Op, c.DType) {
		return j.fail(fmt.Errorf("backend mem: %v: Info does not list it: %w", c, errors.ErrUnsupported))
	}
	done := j.done[me]
	j.calls[me] = c
	if err := j.advance(me); err != nil {
		return j.fail(err)
	}
	for j.done[me] == done {
		if err := b.blocked(ctx, c, start); err != nil {
			return err
		}
		j.changed.Wait()
	}
	return nil
}

func (j *job) lookUp() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.changed.Broadcast()
}

// fail ends the group for everybody.
func (j *job) fail(err error) error {
	j.err = err
	j.changed.Broadcast()
	return err
}

// blocked returns why a call cannot succeed any more, nil while it can.
func (b *backend) blocked(ctx context.Context, c *sdk.Collective, start time.Time) error {
	j, missing := b.job, []int(nil)
	if j.err != nil {
		return j.err
	}
	for _, r := range partners(c, len(j.calls)) {
		if j.gone[r] {
			return j.fail(&sdk.PeerError{Peer: r, Seq: c.Seq, Cause: "it closed the backend"})
		}
		if j.calls[r] == nil {
			missing = append(missing, r)
		}
	}
	switch err := ctx.Err(); {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return j.fail(&sdk.StallError{Seq: c.Seq, Op: c.Op, Bucket: c.Bucket, Missing: missing, Waited: time.Since(start)})
	default:
		return j.fail(fmt.Errorf("backend mem: %v: %w", c, err))
	}
}

// partners are the ranks that a call needs, its own included.
func partners(c *sdk.Collective, world int) []int {
	if c.Pairwise() {
		return []int{c.Root}
	}
	all := make([]int, world)
	for r := range all {
		all[r] = r
	}
	return all
}

// advance compares rank me's call with those that wait, and runs it when all
// partners are there.
func (j *job) advance(me int) error {
	c := j.calls[me]
	for r, o := range j.calls {
		if o == nil || r == me || !concern(c, me, o, r) {
			continue
		}
		if !agree(c, me, o, r) {
			return &sdk.MismatchError{Rank: me, Peer: r, Mine: c.String(), Its: o.String()}
		}
	}
	ranks := partners(c, len(j.calls))
	for _, r := range ranks {
		if o := j.calls[r]; o == nil || !concern(c, me, o, r) {
			return nil
		}
	}
	if c.Pairwise() {
		ranks = append(ranks, me)
	}
	run(c, me, j.calls)
	for _, r := range ranks {
		j.calls[r] = nil
		j.done[r]++
	}
	j.changed.Broadcast()
	return nil
}

// concern reports whether two waiting calls have to match: two transfers only if they point at each
// other, anything else always.
func concern(c *sdk.Collective, me int, o *sdk.Collective, r int) bool {
	switch {
	case c.Pairwise() && o.Pairwise():
		return c.Root == r && o.Root == me
	case c.Pairwise():
		return c.Root == r
	case o.Pairwise():
		return o.Root == me
	}
	return true
}

func agree(c *sdk.Collective, me int, o *sdk.Collective, r int) bool {
	if c.Pairwise() {
		return c.Answers(o)
	}
	return c.Matches(o)
}

// run moves the bytes of a complete meeting.
func run(c *sdk.Collective, me int, calls []*sdk.Collective) {
	switch c.Op {
	case sdk.OpSend:
		copy(calls[c.Root].Buf, c.Buf)
		return
	case sdk.OpRecv:
		copy(c.Buf, calls[c.Root].Buf)
		return
	}
	bufs := make([][]byte, len(calls))
	for r := range bufs {
		bufs[r] = calls[r].Buf
	}
	call := c.Call()
	for r, result := range contracttest.Results(&call, bufs) {
		copy(bufs[r], result)
	}
}

var _ sdk.Backend = (*backend)(nil)
