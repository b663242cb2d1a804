package train

import (
	"errors"

	"github.com/trainctl/trainctl/core/train/data"
)

// enqueued goes on while the device computes: the next batch leaves for it, and
// buckets for the other ranks as they land.
func (t *Trainer) enqueued() {
	t.lookAhead()
	_ = t.reducer.Arrive(true) // the reducer keeps the error for Flush
}

// lookAhead takes the next batch of the epoch and begins to copy it. The slot
// of the batch before is filled anew when that is done, so that was read first.
func (t *Trainer) lookAhead() {
	if t.ahead.Rows > 0 || t.aheadErr != nil || t.loader.Left() == 0 {
		return
	}
	if t.aheadErr = t.device.dev.Fed(); t.aheadErr != nil {
		return
	}
	begun := t.begun // the pass under way goes on
	defer func() { t.begun = begun }()
	if t.aheadErr = t.fetch(0); t.aheadErr == nil {
		t.aheadErr = t.device.dev.Feed(t.ahead.Input, t.ahead.Target)
	}
}

// left is the number of batches that this rank still brings to the epoch, as
// far as is known: one that was taken ahead, or found missing, is still to come.
func (t *Trainer) left() int {
	n := t.loader.Left()
	if t.ahead.Rows > 0 || errors.Is(t.aheadErr, data.ErrEnd) {
		n++
	}
	return n
}

// reached is how many batches of the pass were used.
func (t *Trainer) reached() int {
	n := t.loader.Taken()
	if t.ahead.Rows > 0 {
		n--
	}
	return n
}

// forget drops a batch that no run will get.
func (d *deviceMemory) forget() {
	if d.dev != nil {
		d.dev.Forget()
	}
}
