package cuda

import (
	"errors"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// stage implements [plan.Stage] on a stream of its own: a bucket leaves as soon
// as its gradients are final, while kernels behind them run.
type stage struct {
	dev     *Device
	stream  driver.Stream
	buckets []staged
}

type staged struct {
	host                 []byte
	at                   driver.DevicePtr
	final, landed, there driver.Event // in the device; at the host; back in the device
}

// Stage implements [plan.Resident].
func (d *Device) Stage(buckets [][]byte) (plan.Stage, error) {
	defer d.enter()()
	s := &stage{dev: d, buckets: make([]staged, len(buckets))}
	err := d.cu.StreamCreate(&s.stream, driver.StreamNonBlocking)
	for i, b := range buckets {
		s.buckets[i].host, s.buckets[i].at = b, d.mustCopyOf(b)
		for _, e := range s.buckets[i].events() {
			if err == nil {
				err = d.cu.EventCreate(e, driver.EventDisableTiming)
			}
		}
	}
	if err != nil {
		return nil, joinFree(d.told(err, to("the stream of the gradients")), s.Close())
	}
	return s, nil
}

func (b *staged) events() [3]*driver.Event { return [3]*driver.Event{&b.final, &b.landed, &b.there} }

// Fetch implements [plan.Stage].
func (s *stage) Fetch(bucket int) error {
	d, b := s.dev, &s.buckets[bucket]
	if err := d.gone(); err != nil {
		return err
	}
	defer d.enter()()
	err := d.cu.EventRecord(b.final, d.stream)
	if err == nil {
		err = d.cu.StreamWaitEvent(s.stream, b.final, 0)
	}
	if err == nil {
		err = d.cu.MemcpyDtoHAsync(unsafe.Pointer(unsafe.SliceData(b.host)), b.at, uintptr(len(b.host)), s.stream)
	}
	if err == nil {
		err = d.cu.EventRecord(b.landed, s.stream)
	}
	return d.told(err, fetching(bucket))
}

func fetching(bucket int) purpose {
	return purpose{text: "the gradients of bucket %d and their copy to the host", n: bucket}
}

// Landed implements [plan.Stage].
func (s *stage) Landed(bucket int, wait bool) (bool, error) {
	d, b := s.dev, &s.buckets[bucket]
	if err := d.gone(); err != nil {
		return false, err
	}
	defer d.enter()()
	if wait {
		err := d.await(s.stream, b.landed, fetching(bucket))
		return err == nil, err
	}
	err := d.cu.EventQuery(b.landed)
	if errors.Is(err, driver.NotReady) {
		return false, nil
	}
	return err == nil, d.told(err, fetching(bucket))
}

// Store implements [plan.Stage].
func (s *stage) Store(bucket int) error {
	d, b := s.dev, &s.buckets[bucket]
	if err := d.gone(); err != nil {
		return err
	}
	defer d.enter()()
	err := d.cu.MemcpyHtoDAsync(b.at, unsafe.Pointer(unsafe.SliceData(b.host)), uintptr(len(b.host)), s.stream)
	if err == nil {
		err = d.cu.EventRecord(b.there, s.stream)
	}
	if err == nil {
		err = d.cu.StreamWaitEvent(d.stream, b.there, 0)
	}
	return d.told(err, purpose{text: "storing bucket %d", n: bucket})
}

// Close implements [plan.Stage].
func (s *stage) Close() (err error) {
	d := s.dev
	if d.gone() != nil {
		return nil
	}
	defer d.enter()()
	if s.stream != 0 {
		err = d.cu.StreamDestroy(s.stream)
	}
	for i := range s.buckets {
		for _, e := range s.buckets[i].events() {
			if *e != 0 {
				err = joinFree(err, d.cu.EventDestroy(*e))
			}
		}
	}
	return err
}
