package tcp

import (
	"errors"
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/sdk"
)

// agree tells every peer what this rank calls, contributions that fit
// attached, and waits until all of them called the same. No other byte of
// payload moves before.
//
// In step k a rank sends to its k-th neighbour on the right and receives from
// its k-th on the left, so each send of a step meets a receive of that step.
func (b *Backend) agree(x *exchange) error {
	mine := make([]byte, callSize)
	b.op.call.encode(mine)
	send := func() error {
		for k := 1; k < b.group.WorldSize; k++ {
			p := b.right(k)
			if err := b.write(p, kindCall, mine, x.attachTo(p.rank)); err != nil {
				return err
			}
		}
		return nil
	}
	if x.attached <= copyBelow {
		if err := send(); err != nil {
			return err
		}
		return b.hearAll(x)
	}
	return b.both(send, func() error { return b.hearAll(x) })
}

// hearAll reads every peer's call. A stall names all ranks that did not call.
func (b *Backend) hearAll(x *exchange) error {
	for k := 1; k < b.group.WorldSize; k++ {
		err := b.hear(b.left(k), x)
		var stall *sdk.StallError
		if errors.As(err, &stall) {
			return b.sweep(k, x, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sweep is called when time is up while waiting for the k-th rank on the left:
// of the remaining ones only those whose call is not there are missing.
func (b *Backend) sweep(k int, x *exchange, cause error) error {
	var late *sdk.StallError
	errors.As(cause, &late)
	for k++; k < b.group.WorldSize; k++ {
		p := b.left(k)
		if next, err := peek(p); err == nil && next == 0 {
			late.Missing = append(late.Missing, p.rank)
		} else if next == kindCall {
			if err := b.hear(p, x); errors.As(err, new(*sdk.MismatchError)) {
				return err
			}
		}
	}
	slices.Sort(late.Missing)
	return cause
}

// hear reads p's call and what is attached to it.
func (b *Backend) hear(p *peer, x *exchange) error {
	its, h, err := b.readCall(p)
	if err != nil {
		return err
	}
	if !b.op.call.matches(its) {
		return b.mismatch(p.rank, its)
	}
	into := x.attachFrom(p.rank)
	if h.length != callSize+len(into) {
		return b.peerError(p.rank, fmt.Sprintf("it attached %d bytes where %d were due", h.length-callSize, len(into)))
	}
	if err := b.readFull(p, into); err != nil {
		return err
	}
	b.op.agreed[p.rank], b.op.calls[p.rank] = true, its
	return nil
}

func (b *Backend) readCall(p *peer) (call, header, error) {
	h, err := b.readHeader(p, kindCall)
	if err != nil {
		return call{}, h, err
	}
	raw := p.in[headerSize:]
	if err := b.readFull(p, raw); err != nil {
		return call{}, h, err
	}
	return parseCall(raw), h, nil
}

func (b *Backend) right(k int) *peer { return b.peers[(b.group.Rank+k)%b.group.WorldSize] }

func (b *Backend) left(k int) *peer {
	return b.peers[(b.group.Rank-k+b.group.WorldSize)%b.group.WorldSize]
}
