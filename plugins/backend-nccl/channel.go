package nccl

import (
	"errors"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/plugins/internal/clib"
)

// channel is a communicator with its own stream, so that channels do not wait for each
// other. All methods run on the thread.
type channel struct {
	cuda   *driver.CUDA
	comm   communicator
	stream driver.Stream
	event  driver.Event
}

// openChannels makes the streams of n channels; start makes the communicators.
func openChannels(l libraries, n int) (all channels, err error) {
	for range n {
		c := &channel{cuda: l.cuda, comm: communicator{nccl: l.nccl}}
		all = append(all, c)
		if err := errors.Join(l.cuda.StreamCreate(&c.stream, driver.StreamNonBlocking), l.cuda.EventCreate(&c.event, driver.EventDisableTiming)); err != nil {
			return all, err
		}
	}
	return all, nil
}

// close frees stream and event, after the communicator has ended.
func (c *channel) close() error {
	var errs []error
	if c.event != 0 {
		errs = append(errs, c.cuda.EventDestroy(c.event))
	}
	if c.stream != 0 {
		errs = append(errs, c.cuda.StreamDestroy(c.stream))
	}
	return errors.Join(errs...)
}

// channels are those of a backend, by number.
type channels []*channel

// ids returns a new unique id for each communicator.
func (l channels) ids() (ids [][]byte, err error) {
	for _, c := range l {
		var id driver.NCCLUniqueID
		if err := c.comm.nccl.GetUniqueID(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id.Bytes[:])
	}
	return ids, nil
}

// start joins one communicator after the other, in the same order on all ranks.
func (l channels) start(world, rank int, ids [][]byte, g clib.Guard) error {
	for i, c := range l {
		var id driver.NCCLUniqueID
		copy(id.Bytes[:], ids[i])
		if err := c.comm.start(world, rank, id, g); err != nil {
			return err
		}
	}
	return nil
}

// abort aborts all communicators.
func (l channels) abort() error { return l.each(func(c *channel) error { return c.comm.abort() }) }

// leave ends healthy communicators.
func (l channels) leave() error { return l.each(func(c *channel) error { return c.comm.leave() }) }

func (l channels) close() error { return l.each((*channel).close) }

func (l channels) each(f func(*channel) error) error {
	var errs []error
	for _, c := range l {
		errs = append(errs, f(c))
	}
	return errors.Join(errs...)
}
