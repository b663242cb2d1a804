package data

import (
	"errors"
	"fmt"

	"github.com/trainctl/trainctl/core/sdk"
)

// Batches is what the loader needs of a dataset plugin: a number of slots in
// shared memory, each requested without waiting and then waited for.
type Batches interface {
	// Request starts to fill a slot. The indices are copied.
	Request(slot int, split sdk.Split, epoch int, seed uint64, indices []int64) error
	// Wait returns the filled slot's memory, valid until the slot's next Request.
	Wait(slot int) (input, target []byte, err error)
}

// ErrEnd reports that the data set ended before the pass.
var ErrEnd = errors.New("the data set ended early")

// Batch is one batch in shared memory. It is valid until the next call of Next.
type Batch struct {
	Input, Target []byte
	Rows          int
}

// Loader walks a list of indices in batches and keeps up to slots−1 batches
// requested ahead. It belongs to the goroutine of the training loop.
type Loader struct {
	src   Batches
	slots int
	size  int
	seed  uint64

	split     sdk.Split
	epoch     int
	indices   []int64
	share     int // samples of a step: no batch crosses its end
	requested int // batches asked for since Start
	taken     int // batches returned since Start
	ended     bool
}

// NewLoader reads batches of at most size samples through the given number
// of slots, at least two.
func NewLoader(src Batches, slots, size int, seed uint64) *Loader {
	if slots < 2 || size < 1 {
		panic(fmt.Sprintf("data: loader with %d slots of %d samples", slots, size))
	}
	return &Loader{src: src, slots: slots, size: size, seed: seed}
}

// Start begins a pass over indices and requests the first batches. share is the number of indices
// of a step: the last batch of each share may be short; 0: only the last of the pass may be.
// Batches of an earlier pass that were requested but not taken are waited for and dropped. The
// indices are read until the pass ends.
func (l *Loader) Start(split sdk.Split, epoch int, indices []int64, share int) error {
	if err := l.Stop(); err != nil {
		return err
	}
	if share == 0 {
		share = l.size
	}
	l.split, l.epoch, l.indices, l.share = split, epoch, indices, share
	l.requested, l.taken, l.ended = 0, 0, false
	return l.ahead()
}

// Stop ends a pass early.
func (l *Loader) Stop() error {
	if err := l.drain(l.taken); err != nil {
		return err
	}
	l.indices = nil
	l.requested, l.taken, l.ended = 0, 0, false
	return nil
}

// drain waits for the batches requested from one on. If there are none, that is not an
// error.
func (l *Loader) drain(from int) error {
	for ; from < l.requested; from++ {
		if _, _, err := l.src.Wait(from % l.slots); err != nil && !sdk.IsEndOfData(err) {
			return err
		}
	}
	l.requested = l.taken
	return nil
}

// Len is the number of batches of the pass, if the data set does not end early.
func (l *Loader) Len() int {
	if len(l.indices) == 0 {
		return 0
	}
	steps, rest := len(l.indices)/l.share, len(l.indices)%l.share
	return steps*l.perStep() + (rest+l.size-1)/l.size
}

// perStep is the number of batches of a step, which the last step may not reach.
func (l *Loader) perStep() int { return (l.share + l.size - 1) / l.size }

// from is the position of a batch's first index.
func (l *Loader) from(batch int) int {
	return batch/l.perStep()*l.share + batch%l.perStep()*l.size
}

// rows is the number of samples in a batch of the pass; the last of a step may be short.
func (l *Loader) rows(batch int) int {
	from := l.from(batch)
	return min(l.size, l.share-from%l.share, len(l.indices)-from)
}

// Left is the number of batches that Next can still return, as far as is known.
func (l *Loader) Left() int {
	if l.ended {
		return 0
	}
	return l.Len() - l.taken
}

// Next returns the next batch, waiting for it if need be, and ErrEnd once the
// data set has ended early. It must not be called more than Len times.
func (l *Loader) Next() (Batch, error) {
	if l.ended {
		return Batch{}, ErrEnd
	}
	if l.taken == l.Len() {
		panic("data: Next after the last batch")
	}
	// The previous batch's slot is free now.
	if err := l.ahead(); err != nil {
		return Batch{}, err
	}
	in, target, err := l.src.Wait(l.taken % l.slots)
	if sdk.IsEndOfData(err) {
		l.ended = true
		if err := l.drain(l.taken + 1); err != nil {
			return Batch{}, err
		}
		return Batch{}, ErrEnd
	}
	if err != nil {
		return Batch{}, err
	}
	b := Batch{Input: in, Target: target, Rows: l.rows(l.taken)}
	l.taken++
	return b, nil
}

// ahead requests batches into all free slots. It is called when the caller uses no
// batch, so a slot is free unless it was requested and not taken.
func (l *Loader) ahead() error {
	for l.requested < l.Len() && l.requested < l.taken+l.slots {
		from := l.from(l.requested)
		part := l.indices[from : from+l.rows(l.requested)]
		if err := l.src.Request(l.requested%l.slots, l.split, l.epoch, l.seed, part); err != nil {
			return err
		}
		l.requested++
	}
	return nil
}
