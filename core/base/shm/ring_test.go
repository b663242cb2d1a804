package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

// memory is a control arena on the Go heap, which the race detector watches.
func memory() []byte {
	b := make([]byte, ControlSize+64)
	off := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 63)
	return b[off : off+ControlSize]
}

func newRing(t testing.TB, bell Bell) (*Submitter, *Worker, []byte) {
	t.Helper()
	mem := memory()
	s, err := NewSubmitter(mem, bell)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWorker(mem, bell)
	if err != nil {
		t.Fatal(err)
	}
	return s, w, mem
}

// echo completes every submission with its payload until it gets count 0.
func echo(w *Worker) error {
	var sub Submission
	for {
		ok, err := w.Next(&sub)
		if err != nil {
			return err
		}
		if !ok {
			w.Wait(Slice)
			continue
		}
		var c Completion
		copy(c.Result[:], sub.Payload[:])
		w.Post(&c)
		if sub.Count == 0 {
			return nil
		}
	}
}

func (r *Submitter) await(c *Completion) error {
	for {
		if ok, err := r.Complete(c); ok || err != nil {
			return err
		}
		r.Wait(Slice)
	}
}

func TestRingCarriesEverythingInOrder(t *testing.T) {
	for _, bell := range []Bell{{}, {Poll: true}, {Spin: 20 * time.Microsecond}} {
		t.Run(fmt.Sprintf("%+v", bell), func(t *testing.T) {
			s, w, _ := newRing(t, bell)
			ended := make(chan error, 1)
			go func() { ended <- echo(w) }()
			var c Completion
			const n = 2000
			sub := Submission{}
			got := uint64(0)
			take := func() {
				if err := s.await(&c); err != nil {
					t.Fatal(err)
				}
				got++
				if v := binary.LittleEndian.Uint64(c.Result[:]); c.Ticket != got || v != got*got {
					t.Fatalf("completion %d has ticket %d and payload %d", got, c.Ticket, v)
				}
			}
			for i := uint64(1); i <= n; i++ {
				sub.Count = n - i
				binary.LittleEndian.PutUint64(sub.Payload[:], i*i)
				for errors.Is(s.Submit(&sub), ErrFull) {
					take()
				}
			}
			for got < n {
				take()
			}
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if !w.Idle() || s.submitted.Load() != s.completed.Load() {
				t.Error("the ring is not idle at the end")
			}
		})
	}
}

func TestSlotsSurviveTheirEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want, got Submission
		want.Ticket = rapid.Uint64().Draw(t, "ticket")
		want.Seq, want.Offset = rapid.Uint64().Draw(t, "seq"), rapid.Uint64().Draw(t, "offset")
		want.Count, want.Size = rapid.Uint64().Draw(t, "count"), rapid.Uint64().Draw(t, "size")
		want.Arena, want.Root, want.Bucket = rapid.Uint32().Draw(t, "arena"), rapid.Int32().Draw(t, "root"), rapid.Int32().Draw(t, "bucket")
		want.Op, want.DType, want.Reduce = rapid.Byte().Draw(t, "op"), rapid.Byte().Draw(t, "dtype"), rapid.Byte().Draw(t, "reduce")
		copy(want.Payload[:], rapid.SliceOfN(rapid.Byte(), PayloadSize, PayloadSize).Draw(t, "payload"))
		var b [subSize]byte
		want.encode(b[:])
		got.decode(b[:])
		if got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

// The layout is a promise to plugins in other languages: docs/protocol.md.
func TestLayout(t *testing.T) {
	s, w, mem := newRing(t, Bell{})
	le := binary.LittleEndian
	if string(mem[:8]) != "TCRING01" || le.Uint32(mem[8:]) != 64 || le.Uint32(mem[12:]) != 128 || le.Uint32(mem[16:]) != 64 || le.Uint32(mem[20:]) != 0x400 || le.Uint32(mem[24:]) != 0x2400 {
		t.Errorf("header: %x", mem[:32])
	}
	sub := Submission{Seq: 2, Offset: 3, Count: 4, Size: 5, Arena: 6, Root: 7, Bucket: -1, Op: 9, DType: 10, Reduce: 11, Payload: [PayloadSize]byte{12}}
	if err := s.Submit(&sub); err != nil {
		t.Fatal(err)
	}
	b := mem[0x400:]
	for i, want := range []uint64{1, 2, 3, 4, 5} {
		if got := le.Uint64(b[8*i:]); got != want {
			t.Errorf("word %d of the submission: %d", i, got)
		}
	}
	if le.Uint32(b[40:]) != 6 || le.Uint32(b[44:]) != 7 || le.Uint32(b[48:]) != 1<<32-1 || b[52] != 9 || b[53] != 10 || b[54] != 11 || b[56] != 12 {
		t.Errorf("submission: %x", b[:64])
	}
	if le.Uint64(mem[0xc0:]) != 1 || le.Uint32(mem[0x100:]) != 1 {
		t.Errorf("submission tail and bell: %x %x", mem[0xc0:0xc8], mem[0x100:0x104])
	}
	if _, err := w.Next(&sub); err != nil {
		t.Fatal(err)
	}
	w.Post(&Completion{Status: Failed, Result: [ResultSize]byte{13}})
	b = mem[0x2400:]
	if le.Uint64(b) != 1 || le.Uint32(b[8:]) != 1 || b[16] != 13 || le.Uint64(mem[0x180:]) != 1 || le.Uint32(mem[0x1c0:]) != 1 {
		t.Errorf("completion: %x", b[:32])
	}
	w.Beat()
	s.Abort()
	if le.Uint64(mem[0x80:]) != 1 || s.Heartbeat() != 1 || le.Uint32(mem[0x40:]) != 1 || !w.Aborted() {
		t.Error("heartbeat or abort word")
	}
}

// Whatever the peer writes, the result is an error, not a crash.
func TestNothingOfThePeerIsTrusted(t *testing.T) {
	next := func(_ *Submitter, w *Worker) error { _, err := w.Next(&Submission{}); return err }
	complete := func(s *Submitter, _ *Worker) error { _, err := s.Complete(&Completion{}); return err }
	for _, c := range []struct {
		name   string
		offset int
		value  uint64
		read   func(*Submitter, *Worker) error
	}{
		{"too many submissions", 0xc0, Slots + 1, next},
		{"submissions go back", 0xc0, 0, next},
		{"a wrong ticket", 0x400, 9, next},
		{"more completions than submissions", 0x180, 2, complete},
		{"a completion of another ticket", 0x180, 1, complete},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, w, mem := newRing(t, Bell{})
			if err := s.Submit(&Submission{}); err != nil {
				t.Fatal(err)
			}
			if c.value == 0 { // what goes back was taken before
				if err := next(s, w); err != nil {
					t.Fatal(err)
				}
			}
			binary.LittleEndian.PutUint64(mem[c.offset:], c.value)
			if err := c.read(s, w); err == nil {
				t.Error("accepted")
			}
		})
	}
}

// Memory that cannot hold a ring of this version is refused.
func TestRefusesOtherMemory(t *testing.T) {
	_, _, mem := newRing(t, Bell{})
	b := make([]byte, 2*ControlSize)
	misaligned := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b)))&63) + 8
	if _, err := NewSubmitter(mem[:ControlSize-1], Bell{}); err == nil {
		t.Error("too little memory was accepted")
	}
	if _, err := NewWorker(b[misaligned:], Bell{}); err == nil {
		t.Error("misaligned memory was accepted")
	}
	mem[7] = '2'
	if _, err := NewWorker(mem, Bell{}); err == nil {
		t.Error("another version was accepted")
	}
}

// wake and Abort end a sleep that would otherwise last until its timeout.
func TestWake(t *testing.T) {
	for _, bell := range []Bell{{}, {Poll: true}} {
		s, w, _ := newRing(t, bell)
		both := make(chan struct{}, 2)
		go func() { s.Wait(time.Hour); both <- struct{}{} }()
		go func() { w.Wait(time.Hour); both <- struct{}{} }()
		for range 2 {
			for done := false; !done; { // the sleep may not have begun yet
				s.Wake()
				s.Abort()
				select {
				case <-both:
					done = true
				case <-time.After(time.Millisecond):
				}
			}
		}
	}
}

func TestSubmitAndWaitDoNotAllocate(t *testing.T) {
	s, w, _ := newRing(t, Bell{})
	ended := make(chan error, 1)
	go func() { ended <- echo(w) }()
	var c Completion
	sub := Submission{Count: 1}
	allocs := testing.AllocsPerRun(200, func() {
		if err := s.Submit(&sub); err != nil {
			t.Fatal(err)
		}
		if err := s.await(&c); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations for one operation", allocs)
	}
	sub.Count = 0
	if err := s.Submit(&sub); err != nil {
		t.Fatal(err)
	}
	<-ended
}

func BenchmarkRoundTrip(b *testing.B) {
	for _, bell := range []Bell{{}, {Poll: true}, {Spin: 50 * time.Microsecond}} {
		b.Run(fmt.Sprintf("%+v", bell), func(b *testing.B) {
			s, w, _ := newRing(b, bell)
			ended := make(chan error, 1)
			go func() { ended <- echo(w) }()
			var c Completion
			sub := Submission{Count: 1}
			for b.Loop() {
				_ = s.Submit(&sub)
				_ = s.await(&c)
			}
			sub.Count = 0
			_ = s.Submit(&sub)
			<-ended
		})
	}
}
