package pb

import (
	"encoding/binary"
	"math"
)

// Operation codes in submission slots beyond the collectives, whose codes are
// those of sdk.Op.
const (
	OpFill     = 64
	OpUpdate   = 65
	OpForward  = 66 // of a layer; the slot's Seq is the layer's number, its Count the batch
	OpBackward = 67
)

// LayerAlign is where the tensors of a layer's call begin: the slot's Size bytes at Offset hold, one after
// the other and each at a multiple of it, what the call reads and then what it writes. Forward reads x
// and the parameters, and writes y. Backward reads x, or y if the layer saves that, then dy and the
// parameters, and writes dx and the gradients of the parameters.
const LayerAlign = 64

// LayerTensor is one tensor of a call, in bytes.
type LayerTensor struct{ Offset, Size int }

// LayLayer places the tensors of a call with a batch of a type of size bytes. in, out and params are the
// elements of one sample and of each parameter. inputs is where the part that the call writes begins.
func LayLayer(backward, saveOutput bool, batch, in, out int, params []int, size int) (tensors []LayerTensor, inputs, total int) {
	add := func(elems int) {
		tensors = append(tensors, LayerTensor{total, elems * size})
		total += (elems*size + LayerAlign - 1) / LayerAlign * LayerAlign
	}
	each := func() {
		for _, n := range params {
			add(n)
		}
	}
	saved := in
	if backward && saveOutput {
		saved = out
	}
	add(batch * saved)
	if backward {
		add(batch * out)
	}
	each()
	if inputs = total; backward {
		add(batch * in)
		each()
	} else {
		add(batch * out)
	}
	return tensors, inputs, total
}

// FillArgs is the payload of OpFill. The slot's Arena, Offset and Count give
// the indices: Count little-endian int64 at Offset. The other offsets are
// within the same arena.
type FillArgs struct {
	Split      uint32
	NoAugment  bool
	Epoch      int64
	Seed       uint64
	Input      uint64
	InputSize  uint64
	Target     uint64
	TargetSize uint64
}

// Put writes the arguments into a payload of at least 56 bytes.
func (a *FillArgs) Put(b []byte) {
	_ = b[55]
	le := binary.LittleEndian
	le.PutUint32(b[0:], a.Split)
	le.PutUint32(b[4:], 0)
	if a.NoAugment {
		b[4] = 1
	}
	le.PutUint64(b[8:], uint64(a.Epoch))
	le.PutUint64(b[16:], a.Seed)
	le.PutUint64(b[24:], a.Input)
	le.PutUint64(b[32:], a.InputSize)
	le.PutUint64(b[40:], a.Target)
	le.PutUint64(b[48:], a.TargetSize)
}

// Get reads what Put wrote.
func (a *FillArgs) Get(b []byte) {
	_ = b[55]
	le := binary.LittleEndian
	a.Split, a.NoAugment = le.Uint32(b[0:]), b[4] != 0
	a.Epoch = int64(le.Uint64(b[8:]))
	a.Seed = le.Uint64(b[16:])
	a.Input = le.Uint64(b[24:])
	a.InputSize = le.Uint64(b[32:])
	a.Target = le.Uint64(b[40:])
	a.TargetSize = le.Uint64(b[48:])
}

// CollectiveArgs is the payload of a collective.
type CollectiveArgs struct {
	Timed       bool  // the host asked for its Span
	Channel     uint8 // what the call is for
	Ready, Done uint16
}

// Put writes the arguments into a payload of at least 8 bytes.
func (a *CollectiveArgs) Put(b []byte) {
	le := binary.LittleEndian
	le.PutUint64(b, 0)
	if a.Timed {
		b[0] = 1
	}
	b[1] = a.Channel
	le.PutUint16(b[2:], a.Ready)
	le.PutUint16(b[4:], a.Done)
}

// Get reads what Put wrote.
func (a *CollectiveArgs) Get(b []byte) {
	_ = b[7]
	a.Timed, a.Channel = b[0] != 0, b[1]
	a.Ready, a.Done = binary.LittleEndian.Uint16(b[2:]), binary.LittleEndian.Uint16(b[4:])
}

// ScaleResult is the result of OpUpdate; its argument is one byte, 1 for
// "an infinity or NaN was found".
type ScaleResult struct {
	Scale   float64
	Skipped uint64
	Skip    bool
}

// Put writes the result into a completion's result of at least 17 bytes.
func (r *ScaleResult) Put(b []byte) {
	_ = b[16]
	binary.LittleEndian.PutUint64(b[0:], math.Float64bits(r.Scale))
	binary.LittleEndian.PutUint64(b[8:], r.Skipped)
	b[16] = 0
	if r.Skip {
		b[16] = 1
	}
}

// Get reads what Put wrote.
func (r *ScaleResult) Get(b []byte) {
	_ = b[16]
	r.Scale = math.Float64frombits(binary.LittleEndian.Uint64(b[0:]))
	r.Skipped = binary.LittleEndian.Uint64(b[8:])
	r.Skip = b[16] != 0
}

// Span is when a collective was worked on, in Unix nanoseconds. It is the
// result of a collective whose payload begins with 1; zero means unknown.
type Span struct{ Begin, End int64 }

// Put writes the span into a completion's result of at least 16 bytes.
func (s *Span) Put(b []byte) {
	_ = b[15]
	binary.LittleEndian.PutUint64(b[0:], uint64(s.Begin))
	binary.LittleEndian.PutUint64(b[8:], uint64(s.End))
}

// Get reads what Put wrote.
func (s *Span) Get(b []byte) {
	_ = b[15]
	s.Begin = int64(binary.LittleEndian.Uint64(b[0:]))
	s.End = int64(binary.LittleEndian.Uint64(b[8:]))
}

// Integers converts the elements of a list, which are int64 in messages.
func Integers[To, From int | int64](list []From) []To {
	out := make([]To, len(list))
	for i, v := range list {
		out[i] = To(v)
	}
	return out
}
