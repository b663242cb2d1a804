package host

import (
	"context"
	"path"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/trainctl/trainctl/core/sdk"
)

// Call is one call of a plugin, as [Options.Trace] gets it.
type Call struct {
	Name     string        // "OpenDataset", "fill #3"
	Ring     bool          // through shared memory; otherwise a gRPC message
	Sent     int           // bytes to the plugin: of the message, or of what the operation reads
	Received int           // bytes from the plugin: of the message, or of what the operation writes
	Began    time.Time     // when it was made
	Took     time.Duration // until its result was there; of the ring, until it was waited for
	Err      error
}

// intercept reports gRPC calls, without those that only look for a sign of life.
func (h *Host) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	began := time.Now()
	err := invoke(ctx, method, req, reply, cc, opts...)
	if name := path.Base(method); path.Base(path.Dir(method)) == "trainctl.plugin.v1.Plugin" && name != "Ping" {
		h.opts.Trace(Call{Name: name, Sent: sizeOf(req), Received: sizeOf(reply), Began: began, Took: time.Since(began), Err: err})
	}
	return err
}

func sizeOf(message any) int {
	m, _ := message.(proto.Message)
	return proto.Size(m)
}

// traced reports the operations of a ring.
func (p *plugin) traced(q queue) queue {
	if p.host.opts.Trace == nil {
		return q
	}
	return &tracedQueue{queue: q, p: p, trace: p.host.opts.Trace, calls: map[uint64]Call{}}
}

type tracedQueue struct {
	queue
	p     *plugin
	trace func(Call)

	mu    sync.Mutex
	calls map[uint64]Call // by ticket, submitted and not waited for
}

func (q *tracedQueue) submit(op *operation) (uint64, error) {
	c := Call{Name: q.p.name(op), Ring: true, Began: time.Now()}
	c.Sent, c.Received = op.size, op.size
	if op.inputs > 0 {
		c.Sent, c.Received = op.inputs, op.size-op.inputs
	}
	if n := len(op.batch.Indices); n > 0 {
		c.Sent, c.Received = 8*n, len(op.batch.Input)+len(op.batch.Target)
	}
	ticket, err := q.queue.submit(op)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls[ticket] = c
	return ticket, err
}

func (q *tracedQueue) wait(ticket uint64, scale *sdk.ScaleState) error {
	err := q.queue.wait(ticket, scale)
	q.mu.Lock()
	c, ok := q.calls[ticket]
	delete(q.calls, ticket)
	q.mu.Unlock()
	if ok {
		c.Took, c.Err = time.Since(c.Began), err
		q.trace(c)
	}
	return err
}
