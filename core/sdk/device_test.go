package sdk

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/tensor"
)

// onGPU takes arenas on GPUs, and answers with as many events as it got.
type onGPU struct {
	stubBackend
	refuse error
}

func (g onGPU) Attach(_ context.Context, a *Arena) error {
	a.Device.Done = a.Device.Ready
	return g.refuse
}

func handles(n, size int) (h [][]byte) {
	for range n {
		h = append(h, make([]byte, size))
	}
	return h
}

func deviceServer(t *testing.T, refuse error) *server {
	s := open(t, &server{backend: onGPU{refuse: refuse}, info: Info{Name: "gpu", DeviceArena: true}})
	s.opened.Store(&opened{world: 2, channels: 2})
	return s
}

func ipcArena(ready int) *pb.AttachArenaRequest {
	return &pb.AttachArenaRequest{Id: 3, Name: "gradients", Size: 4096, Device: &pb.DeviceMemory{
		Uuid: "GPU-1", Kind: "ipc", Handle: make([]byte, HandleSize), Ready: handles(ready, HandleSize),
	}}
}

func TestDeviceArenasAreChecked(t *testing.T) {
	s := deviceServer(t, nil)
	reply, err := s.attachDevice(t.Context(), ipcArena(4))
	if err != nil || len(reply.Done) != 4 {
		t.Fatal(reply, err)
	}
	for name, spoil := range map[string]func(*pb.AttachArenaRequest){
		"id taken":    func(*pb.AttachArenaRequest) {},
		"empty":       func(r *pb.AttachArenaRequest) { r.Size = 0 },
		"huge":        func(r *pb.AttachArenaRequest) { r.Size = 1<<64 - 1; r.Device.Kind = "" },
		"kind":        func(r *pb.AttachArenaRequest) { r.Device.Kind = "address" },
		"handle":      func(r *pb.AttachArenaRequest) { r.Device.Handle = []byte{1} },
		"event":       func(r *pb.AttachArenaRequest) { r.Device.Ready = handles(1, 63) },
		"many events": func(r *pb.AttachArenaRequest) { r.Device.Ready = handles(MaxEvents+1, HandleSize) },
	} {
		r := ipcArena(1)
		r.Id = 4
		if spoil(r); name == "id taken" {
			r.Id = 3
		}
		var e *Error
		if _, err := s.attachDevice(t.Context(), r); !errors.As(err, &e) || e.Code != CodeProtocol {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.info.DeviceArena = false
	r := ipcArena(0)
	r.Id = 5
	if _, err := s.attachDevice(t.Context(), r); err == nil {
		t.Error("a backend without the ability got an arena")
	}
}

// What could not be attached can be tried again under the same id.
func TestARefusedArenaIsForgotten(t *testing.T) {
	s := deviceServer(t, errors.New("no such GPU"))
	for range 2 {
		if _, err := s.attachDevice(t.Context(), ipcArena(0)); err == nil || err.Error() != "no such GPU" {
			t.Fatal(err)
		}
	}
	s.backend = onGPU{}
	if _, err := s.attachDevice(t.Context(), ipcArena(0)); err != nil {
		t.Error(err)
	}
}

func TestCollectivesInDeviceArenasAreChecked(t *testing.T) {
	s := deviceServer(t, nil)
	if _, err := s.attachDevice(t.Context(), ipcArena(4)); err != nil {
		t.Fatal(err)
	}
	good := shm.Submission{Op: uint8(OpAllReduce), DType: uint8(tensor.F32), Arena: 3, Offset: 4080, Count: 4, Size: 16}
	args := func(a pb.CollectiveArgs) func(*shm.Submission) {
		return func(u *shm.Submission) { a.Put(u.Payload[:]) }
	}
	for name, c := range map[string]struct {
		change func(*shm.Submission)
		good   bool
	}{
		"plain":           {args(pb.CollectiveArgs{}), true},
		"with events":     {args(pb.CollectiveArgs{Ready: 4, Done: 1, Channel: 1}), true},
		"timed":           {args(pb.CollectiveArgs{Timed: true}), true},
		"unknown event":   {args(pb.CollectiveArgs{Ready: 5}), false},
		"unknown answer":  {args(pb.CollectiveArgs{Done: 5}), false},
		"unknown channel": {args(pb.CollectiveArgs{Channel: 2}), false},
		"beyond":          {func(u *shm.Submission) { u.Offset = 4084 }, false},
		"far beyond":      {func(u *shm.Submission) { u.Offset = 1<<64 - 8 }, false},
		"misaligned":      {func(u *shm.Submission) { u.Offset = 2 }, false},
		"host events":     {func(u *shm.Submission) { u.Arena, u.Payload[2] = 1, 1 }, false},
	} {
		u := good
		c.change(&u)
		var done shm.Completion
		if err := s.operate(&u, &done); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
		if c.good && (s.running.Buf != nil || s.running.Arena.Device == nil || s.running.Offset != 4080) {
			t.Errorf("%s: the backend got %+v", name, s.running)
		}
	}
	if name := (&Collective{Seq: 1, Op: OpAllReduce, DType: tensor.F32, Bucket: -1, Channel: 1}).String(); !strings.HasSuffix(name, ", channel 1") {
		t.Errorf("%q", name)
	}
}
