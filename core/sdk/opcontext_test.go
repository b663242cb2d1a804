package sdk

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/tensor"
)

func TestOpContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, abort := context.WithCancel(context.Background())
		var c opContext
		c.begin(parent, time.Second)
		if d, ok := c.Deadline(); !ok || time.Until(d) != time.Second || c.Err() != nil {
			t.Errorf("deadline %v, %v, error %v", d, ok, c.Err())
		}
		if !c.end() {
			t.Error("it was used")
		}
		c.begin(parent, time.Second)
		<-c.Done()
		if !errors.Is(c.Err(), context.DeadlineExceeded) || c.end() {
			t.Errorf("after its time: %v", c.Err())
		}
		c = opContext{}
		c.begin(parent, 0)
		waits := make(chan error)
		go func() { <-c.Done(); waits <- c.Err() }()
		synctest.Wait()
		if c.end() {
			t.Error("somebody waits")
		}
		if err := <-waits; !errors.Is(err, context.Canceled) {
			t.Errorf("after its end: %v", err)
		}
		c = opContext{}
		c.begin(parent, time.Hour)
		child, cancel := context.WithTimeout(&c, time.Minute)
		defer cancel()
		abort()
		<-child.Done()
		if !errors.Is(c.Err(), context.Canceled) {
			t.Errorf("after its parent: %v", c.Err())
		}
		c.end()
		c = opContext{}
		c.begin(context.Background(), time.Second)
		time.Sleep(time.Second)
		if !errors.Is(c.Err(), context.DeadlineExceeded) {
			t.Errorf("without Done: %v", c.Err())
		}
	})
}

// A collective of the ring allocates nothing on its way to the backend.
func TestCollectiveAllocatesNothing(t *testing.T) {
	sub := &shm.Submission{Ticket: 1, Seq: 1, Op: uint8(OpAllReduce), DType: uint8(tensor.F32), Count: 16, Size: 64, Arena: 1, Bucket: -1}
	allocatesNothing(t, &server{backend: stubBackend{}}, DatasetSpec{}, sub)
}

// A batch allocates nothing on its way to the data set.
func TestFillAllocatesNothing(t *testing.T) {
	spec := DatasetSpec{Input: tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{3}}, Target: tensor.Spec{DType: tensor.I32}, TrainSamples: 9}
	sub := &shm.Submission{Ticket: 1, Op: pb.OpFill, Arena: 1, Count: 4, Size: 32}
	a := pb.FillArgs{Input: 64, InputSize: 48, Target: 128, TargetSize: 16}
	a.Put(sub.Payload[:])
	allocatesNothing(t, &server{dataset: stubDataset{}}, spec, sub)
}

// allocatesNothing runs an operation in arena 1, of 4096 bytes.
func allocatesNothing(t *testing.T, s *server, spec DatasetSpec, sub *shm.Submission) {
	t.Helper()
	mem, err := shm.New("test", 4096)
	if err != nil {
		t.Skipf("needs shared memory: %v", err)
	}
	defer mem.Close()
	s.ctx = context.Background()
	s.arenas = map[uint32]*Arena{1: {ID: 1, Name: "test", Arena: mem}}
	s.opened.Store(&opened{timeout: time.Minute, world: 2, spec: spec})
	done := &shm.Completion{}
	if n := testing.AllocsPerRun(100, func() {
		if err := s.operate(sub, done); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
