package memory

import (
	"cmp"
	"errors"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// staging implements [plan.Staging] on its own stream: a bucket is copied as soon as
// its gradients are final, while later kernels run.
type staging struct {
	g       *gpu.GPU
	r       *Residency
	stream  driver.Stream
	buckets []stagedBucket
}

type stagedBucket struct {
	host                 []byte
	at                   driver.DevicePtr
	final, landed, there driver.Event // in the device; at the host; back in the device
}

// NewStaging implements [plan.Resident].
func (r *Residency) NewStaging(buckets [][]byte) (plan.Staging, error) {
	g := r.g
	defer g.Enter()()
	s := &staging{g: g, r: r, buckets: make([]stagedBucket, len(buckets))}
	err := g.CU.StreamCreate(&s.stream, driver.StreamNonBlocking)
	for i, b := range buckets {
		s.buckets[i].host, s.buckets[i].at = b, r.MustCopyOf(b)
		for _, e := range s.buckets[i].events() {
			if err == nil {
				err = g.CU.EventCreate(e, driver.EventDisableTiming)
			}
		}
	}
	if err != nil {
		return nil, cmp.Or(g.Check(err, gpu.Doing("the stream of the gradients")), s.Close())
	}
	return s, nil
}

func (b *stagedBucket) events() [3]*driver.Event {
	return [3]*driver.Event{&b.final, &b.landed, &b.there}
}

// Fetch implements [plan.Staging].
func (s *staging) Fetch(bucket int) error {
	g, b := s.g, &s.buckets[bucket]
	if err := g.Lost(); err != nil {
		return err
	}
	defer g.Enter()()
	err := g.CU.EventRecord(b.final, g.Stream)
	if err == nil {
		err = g.CU.StreamWaitEvent(s.stream, b.final, 0)
	}
	if err == nil {
		err = g.CU.MemcpyDtoHAsync(unsafe.Pointer(unsafe.SliceData(b.host)), b.at, uintptr(len(b.host)), s.stream)
	}
	if err == nil {
		err = g.CU.EventRecord(b.landed, s.stream)
	}
	return g.Check(err, fetching(bucket))
}

func fetching(bucket int) gpu.Activity {
	return gpu.Activity{Text: "the gradients of bucket %d and their copy to the host", N: bucket}
}

// Fetched implements [plan.Staging].
func (s *staging) Fetched(bucket int, wait bool) (bool, error) {
	g, b := s.g, &s.buckets[bucket]
	if err := g.Lost(); err != nil {
		return false, err
	}
	defer g.Enter()()
	if wait {
		err := g.Await(s.stream, b.landed, fetching(bucket))
		return err == nil, err
	}
	err := g.CU.EventQuery(b.landed)
	if errors.Is(err, driver.NotReady) {
		return false, nil
	}
	return err == nil, g.Check(err, fetching(bucket))
}

// Store implements [plan.Staging].
func (s *staging) Store(bucket int) error {
	g, b := s.g, &s.buckets[bucket]
	if err := g.Lost(); err != nil {
		return err
	}
	defer g.Enter()()
	s.r.written(b.at, len(b.host))
	err := g.CU.MemcpyHtoDAsync(b.at, unsafe.Pointer(unsafe.SliceData(b.host)), uintptr(len(b.host)), s.stream)
	if err == nil {
		err = g.CU.EventRecord(b.there, s.stream)
	}
	if err == nil {
		err = g.CU.StreamWaitEvent(g.Stream, b.there, 0)
	}
	return g.Check(err, gpu.Activity{Text: "storing bucket %d", N: bucket})
}

// Close implements [plan.Staging].
func (s *staging) Close() (err error) {
	g := s.g
	if g.Lost() != nil {
		return nil
	}
	defer g.Enter()()
	if s.stream != 0 {
		err = g.CU.StreamDestroy(s.stream)
	}
	for i := range s.buckets {
		for _, e := range s.buckets[i].events() {
			if *e != 0 {
				err = cmp.Or(err, g.CU.EventDestroy(*e))
			}
		}
	}
	return err
}
