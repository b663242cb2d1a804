package replica

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/ddp/ddptest"
	"github.com/trainctl/trainctl/core/train/outline"
)

// nines is a backend of a rank to which broadcasts from other ranks bring the bytes 9.
func nines(rank int) *ddptest.Backend {
	return &ddptest.Backend{Do: func(c *sdk.Collective) error {
		if c.Op == sdk.OpBroadcast && c.Root != rank {
			copy(c.Buf, bytes.Repeat([]byte{9}, len(c.Buf)))
		}
		return nil
	}}
}

// newTestReplication is that of a rank of two, with 64 bytes of parameters and 64 of buffers.
func newTestReplication(t *testing.T, rank int) (*Replication, *ddp.Group) {
	t.Helper()
	l := outline.Layout{
		Buckets: []ddp.Region{{Size: 64}}, All: ddp.Region{Offset: 64, Size: 128}, Buffers: ddp.Region{Offset: 128, Size: 64},
		Scratch: ddp.Region{Offset: 192, Size: ddp.ScratchBytes}, Size: 192 + ddp.ScratchBytes,
	}
	m := &Memory{l, ddptest.NewArena(t, l.Size)}
	g := ddp.NewGroup(rank, 2, nines(rank), m.Arena, l.Scratch)
	d := &Device{Memory: m}
	return &Replication{Rank: rank, World: 2, Group: g, Memory: m, Model: &Model{}, Device: d}, g
}

// A rank has its own buffers where they count, and those of another one elsewhere;
// parameters stay as they are.
func TestBuffersComeFromOneRank(t *testing.T) {
	for from, want := range map[int]byte{1: 1, 0: 9} {
		r, _ := newTestReplication(t, 1)
		copy(r.Memory.Bytes(r.Memory.Buffers), bytes.Repeat([]byte{1}, 64))
		if err := r.Buffers(from); err != nil {
			t.Fatal(err)
		}
		if got := r.Memory.Bytes(r.Memory.Buffers); got[0] != want || got[63] != want {
			t.Errorf("buffers of rank %d: %v", from, got)
		}
		if got := r.Memory.Bytes(ddp.Region{Offset: 64, Size: 64}); got[0] != 0 || got[63] != 0 {
			t.Errorf("parameters are %v", got)
		}
	}
}

// A step that is repeated begins with the buffers that it began with.
func TestBuffersAreRolledBack(t *testing.T) {
	r, _ := newTestReplication(t, 0)
	buffers := r.Memory.Bytes(r.Memory.Buffers)
	for n := range byte(3) {
		buffers[5] = n
		r.Save()
		buffers[5] = 77
		if err := r.Rollback(); err != nil || buffers[5] != n {
			t.Errorf("buffers are %v, %v", buffers, err)
		}
	}
}

// Without feedback and optimizer state the weights are one broadcast; with them
// they are broadcast as well.
func TestWeightsComeFromRankZero(t *testing.T) {
	r, g := newTestReplication(t, 1)
	if err := r.Weights(nil); err != nil || g.Seq() != 1 {
		t.Fatalf("%v after %d collectives", err, g.Seq())
	}
	if got := r.Memory.Bytes(r.Memory.All); got[0] != 9 || got[127] != 9 {
		t.Errorf("weights are %v", got)
	}
	r.Model.Masters = []tensor.Tensor{tensor.New(tensor.F32, 4), {}}
	if err := r.Weights(nil); err != nil || g.Seq() != 3 || r.Model.Masters[0].Data[0] != 9 {
		t.Errorf("%v after %d collectives, master weights %v", err, g.Seq(), r.Model.Masters[0].Data)
	}
}

// What compression has left out on another number of ranks is shared out evenly,
// so that the average over ranks stays what it was.
func TestFeedbackFitsAnotherWorld(t *testing.T) {
	r, _ := newTestReplication(t, 0)
	cfg := ddp.Default()
	cfg.Compress, cfg.PowerSGDRank = "powersgd", 1
	grads := []ddp.Gradient{{Name: "w", DType: tensor.F32, Shape: tensor.Shape{8, 8}}}
	buckets := ddp.Assign(grads, []int{0}, 1, 1)
	regions, end := ddp.Layout(buckets, 0)
	wire, end := cfg.LayoutWire(grads, buckets, regions, end)
	g := ddp.NewGroup(0, 2, nines(0), ddptest.NewArena(t, end+ddp.ScratchBytes), ddp.Region{Offset: end, Size: ddp.ScratchBytes})
	f := &Feedback{Rank: 0, World: 2, Group: g, Memory: r.Memory, Device: r.Device, Reducer: ddp.NewReducer(g, cfg, grads, buckets, regions, wire)}
	var saved []tensor.Named
	for rank := range 4 {
		e := tensor.New(tensor.F32, 8, 8)
		for i := range e.F32() {
			e.F32()[i] = float32(rank)
		}
		saved = append(saved, tensor.Named{Name: "error." + string(rune('0'+rank)) + ".w", Tensor: e})
	}
	notes := f.Restore("powersgd", saved, 4)
	if len(f.Restored) != 2 || f.Restored[0][0].F32()[3] != 1.5 || f.Restored[1][0].F32()[63] != 1.5 {
		t.Errorf("restored %v", f.Restored)
	}
	if len(notes) != 2 || !strings.HasPrefix(notes[0], "1 PowerSGD matrices are missing in the checkpoint") || !strings.HasPrefix(notes[1], "the PowerSGD errors of 4 ranks") {
		t.Errorf("notes %q", notes)
	}
	if notes = f.Restore("none", saved, 2); len(notes) != 1 || !strings.Contains(notes[0], "are dropped") {
		t.Errorf("notes %q", notes)
	}
	f.tensors = saved
	if got := f.Take(); !slices.EqualFunc(got, saved, func(a, b tensor.Named) bool { return a.Name == b.Name }) || f.Take() != nil {
		t.Errorf("took %v", got)
	}
}
