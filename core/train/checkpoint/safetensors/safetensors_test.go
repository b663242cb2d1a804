package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/trainctl/trainctl/core/tensor"
)

func file(header string, buffer int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, buffer)...)
}

func entry(name, dtype, shape, offsets string) string {
	return fmt.Sprintf(`%q:{"dtype":%q,"shape":[%s],"data_offsets":[%s]}`, name, dtype, shape, offsets)
}

// Each of these is a file that some reader accepted.
var malformed = []struct {
	name, complaint string
	bytes           []byte
}{
	{"empty", "too few for a header length", nil},
	{"length cut off", "too few for a header length", make([]byte, 7)},
	{"length 2⁶³", "over the limit", binary.LittleEndian.AppendUint64(nil, 1<<63)},
	{"length over the limit", "over the limit", binary.LittleEndian.AppendUint64(nil, MaxHeader+1)},
	{"length past the end", "only 2 bytes follow", append(binary.LittleEndian.AppendUint64(nil, 3), "{}"...)},
	{"no header", "start with {", file("", 0)},
	{"space first", "start with {", file(" {}", 0)},
	{"not an object", "start with {", file("[]", 0)},
	{"not UTF-8", "UTF-8", file("{\"\xff\":1}", 0)},
	{"cut off", "EOF", file(`{"a":{`, 0)},
	{"something after", "after the header", file("{}x", 0)},
	{"duplicate name", "twice", file("{"+entry("a", "U8", "1", "0,1")+","+entry("a", "U8", "1", "1,2")+"}", 2)},
	{"duplicate member", "twice", file(`{"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, 0)},
	{"metadata not strings", "want a string", file(`{"__metadata__":{"a":1}}`, 0)},
	{"hole", "hole", file("{"+entry("a", "U8", "1", "1,2")+"}", 2)},
	{"overlap", "overlaps", file("{"+entry("a", "U8", "2", "0,2")+","+entry("b", "U8", "2", "1,3")+"}", 3)},
	{"descending offsets", "ascending", file("{"+entry("a", "U8", "1", "2,1")+"}", 2)},
	{"negative offset", "not a size", file("{"+entry("a", "U8", "1", "-1,0")+"}", 1)},
	{"fraction", "not a size", file("{"+entry("a", "U8", "1", "0,1.0")+"}", 1)},
	{"buffer too short", "buffer has 3", file("{"+entry("a", "U8", "4", "0,4")+"}", 3)},
	{"buffer too long", "buffer has 5", file("{"+entry("a", "U8", "4", "0,4")+"}", 5)},
	{"shape and size differ", "needs 8 bytes", file("{"+entry("a", "F32", "2", "0,4")+"}", 4)},
	{"shape overflows", "overflows", file("{"+entry("a", "F32", "4294967296,4294967296", "0,0")+"}", 0)},
	{"shape overflows with the element", "overflows", file("{"+entry("a", "F64", "1152921504606846976", "0,0")+"}", 0)},
	{"dimension over 2⁶³", "not a size", file("{"+entry("a", "U8", "9223372036854775808", "0,0")+"}", 0)},
	{"unknown type", "unknown element type", file("{"+entry("a", "F8_E4M3", "1", "0,1")+"}", 1)},
	{"no shape", "needs dtype", file(`{"a":{"dtype":"U8","data_offsets":[0,0]}}`, 0)},
	{"unknown member", "unknown member", file(`{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":1}}`, 0)},
	{"deep", "want a string", file(`{"a":{"dtype":`+strings.Repeat("[", 100000), 0)},
}

func TestMalformedFiles(t *testing.T) {
	for _, c := range malformed {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err := Read(c.bytes)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.complaint) {
				t.Fatalf("got %v, want a format error about %q", err, c.complaint)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
				t.Fatalf("%d bytes allocated for it", n)
			}
		})
	}
}

func TestReadsPyTorchFile(t *testing.T) {
	b, err := os.ReadFile("testdata/torch.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	tensors, meta, err := Read(b)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]tensor.Tensor{}
	for _, x := range tensors {
		got[x.Name] = x.Tensor
	}
	if d := cmp.Diff([]float32{-2.5, -1.5, -0.5, 0.5, 1.5, 2.5}, got["module.fc.weight"].F32()); d != "" {
		t.Error(d)
	}
	if x := got["module.fc.weight"].Shape; !x.Equal(tensor.Shape{2, 3}) {
		t.Errorf("shape %v", x)
	}
	if n := got["module.bn.num_batches_tracked"]; len(n.Shape) != 0 || n.I64()[0] != 7 {
		t.Errorf("num_batches_tracked is %v %v", n.Shape, n.I64())
	}
	half := tensor.View[uint16](got["module.fc.half"].Data)
	if tensor.F32FromF16(half[1]) != -2 || tensor.F32FromF16(half[2]) != 65504 {
		t.Errorf("half %v", half)
	}
	if brain := tensor.View[uint16](got["module.fc.brain"].Data); tensor.F32FromBF16(brain[1]) != 3.140625 {
		t.Errorf("bfloat16 %v", brain)
	}
	if m := got["module.mask"]; m.DType != tensor.Bool || !bytes.Equal(m.Data, []byte{1, 0, 1}) {
		t.Errorf("mask %v", m)
	}
	if e := got["module.empty"]; e.DType != tensor.F64 || !e.Shape.Equal(tensor.Shape{0, 4}) {
		t.Errorf("empty %v", e)
	}
	if meta["format"] != "pt" {
		t.Errorf("metadata %v", meta)
	}
}

func TestWriteIsDeterministicAndAligned(t *testing.T) {
	model := mixedModel(3)
	model = append(model, tensor.Named{Name: "odd \"bytes\" ü", Tensor: tensor.New(tensor.U8, 3)})
	meta := map[string]string{"b": "2", "a": "1", "format": "pt"}
	var one, two bytes.Buffer
	for _, w := range []*bytes.Buffer{&one, &two} {
		if err := Write(w, model, meta); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Fatal("two writes differ")
	}
	h, err := ReadHeader(bytes.NewReader(one.Bytes()), int64(one.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range h.Entries {
		if at := h.Start + e.Begin; at%int64(e.DType.Size()) != 0 || h.Start%8 != 0 {
			t.Errorf("%s starts at %d", e.Name, at)
		}
		if e.Name != model[i].Name {
			t.Errorf("entry %d is %s, want %s", i, e.Name, model[i].Name)
		}
	}
	back, gotMeta, err := Read(one.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(model, back); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(meta, gotMeta); d != "" {
		t.Error(d)
	}
}

// Foreign files need not align their tensors.
func TestMisalignedTensorIsCopied(t *testing.T) {
	b := file("{"+entry("a", "U8", "1", "0,1")+","+entry("b", "F32", "1", "1,5")+"}   ", 5)
	copy(b[len(b)-4:], tensor.Bytes([]float32{math.Pi}))
	got, _, err := Read(b)
	if err != nil {
		t.Fatal(err)
	}
	if got[1].F32()[0] != math.Pi {
		t.Fatal(got[1].F32())
	}
}

func FuzzRead(f *testing.F) {
	for _, c := range malformed {
		if len(c.bytes) < 10000 {
			f.Add(c.bytes)
		}
	}
	var b bytes.Buffer
	if err := Write(&b, mixedModel(1), nil); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, in []byte) {
		tensors, meta, err := Read(in)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := Write(&out, tensors, meta); err != nil {
			t.Fatalf("read and cannot be written: %v", err)
		}
		again, _, err := Read(out.Bytes())
		if err != nil {
			t.Fatalf("written and cannot be read: %v", err)
		}
		if d := cmp.Diff(tensors, again); d != "" {
			t.Fatal(d)
		}
	})
}

// mixedModel has tensors of several types and sizes, one of them empty.
func mixedModel(seed int) []tensor.Named {
	named := func(name string, d tensor.DType, shape ...int) tensor.Named {
		t := tensor.New(d, shape...)
		for i := range t.Data {
			t.Data[i] = byte(seed*31+i*7+len(name)) &^ 0x40 // finite in every type
		}
		return tensor.Named{Name: name, Tensor: t}
	}
	return []tensor.Named{
		named("layer1.0.weight", tensor.F32, 2, 3), named("layer1.1.num_batches_tracked", tensor.I64),
		named("fc.half", tensor.BF16, 3), named("fc.empty", tensor.F64, 0, 2),
	}
}
