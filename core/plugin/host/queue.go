package host

import (
	"time"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
)

// margin is how much longer than an operation's own timeout the host waits: the
// plugin's error is better, since it names the missing ranks.
var margin = 5 * time.Second

// queue submits operations to an instance one after the other and returns their
// results: through the ring, by calls over gRPC, or in this process.
type queue interface {
	// submit queues a copy of the operation; it blocks while 64 are in flight.
	submit(op *operation) (ticket uint64, err error)
	// wait returns when the operation has ended; scale may be nil.
	wait(ticket uint64, scale *sdk.ScaleState) error
	// span returns when one of the last 64 operations was worked on, if it was
	// submitted as timed and has ended.
	span(ticket uint64) (pb.Span, bool)
	// limit sets how long the host waits for one operation; 0 = for ever.
	limit(d time.Duration)
	// close makes every submit and wait return and then frees the queue.
	close()
}

// operation is one operation of any kind.
type operation struct {
	code     uint8          // an sdk.Op, or another of package pb
	call     sdk.Collective // of a collective; of a layer's call its number as Seq, type, batch as Count and memory
	size     int            // bytes of the call's memory
	inputs   int            // of a layer's call: those that it reads, in front
	batch    sdk.Batch      // of a fill
	arena    uint32         // that of a fill or a layer's call, and a fill's offsets in it
	indices  uint64
	input    uint64
	target   uint64
	foundInf bool // of an update
	timed    bool // record the span of a collective
}

// breakage is the first failed operation of a queue.
type breakage struct {
	err    error
	ticket uint64
}

// note keeps the first error.
func (b *breakage) note(ticket uint64, err error) {
	if b.err == nil {
		b.err, b.ticket = err, ticket
	}
}

// of returns the outcome of an operation whose own result is no longer kept: after the
// first failure all operations fail.
func (b *breakage) of(ticket uint64) error {
	if ticket < b.ticket {
		return nil
	}
	return b.err
}
