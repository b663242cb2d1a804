package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/trainctl/trainctl/core/tensor"
)

// The safetensors format, as FORMAT.md describes it: eight bytes of header
// length, a JSON header, one buffer.

// MaxHeader is the largest header that readers of the format accept.
const MaxHeader = 100_000_000

const metadataKey = "__metadata__"

var dtypeNames = map[tensor.DType]string{
	tensor.F32: "F32", tensor.F64: "F64", tensor.F16: "F16", tensor.BF16: "BF16",
	tensor.I8: "I8", tensor.U8: "U8", tensor.I16: "I16", tensor.I32: "I32", tensor.I64: "I64", tensor.Bool: "BOOL",
}

// Write writes a file that every safetensors reader accepts. The header
// lists the tensors in the given order; in the buffer wider element
// types come first, so that every tensor is aligned to its element. The same
// input gives the same bytes.
func Write(w io.Writer, tensors []tensor.Named, metadata map[string]string) error {
	order := bufferOrder(tensors)
	header, err := encodeHeader(tensors, order, metadata)
	if err != nil {
		return err
	}
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], uint64(len(header)))
	if _, err := w.Write(length[:]); err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, i := range order {
		if _, err := w.Write(tensors[i].Data); err != nil {
			return fmt.Errorf("tensor %q: %w", tensors[i].Name, err)
		}
	}
	return nil
}

func bufferOrder(tensors []tensor.Named) []int {
	order := make([]int, len(tensors))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return tensors[b].DType.Size() - tensors[a].DType.Size()
	})
	return order
}

// encodeHeader pads with spaces to a multiple of eight, so that the buffer starts aligned.
func encodeHeader(tensors []tensor.Named, order []int, metadata map[string]string) ([]byte, error) {
	offsets := make([]int, len(tensors))
	end := 0
	for _, i := range order {
		offsets[i] = end
		end += len(tensors[i].Data)
	}
	b := []byte{'{'}
	if len(metadata) > 0 {
		b = appendMetadata(b, metadata)
	}
	seen := make(map[string]bool, len(tensors))
	for i, t := range tensors {
		if seen[t.Name] || t.Name == metadataKey {
			return nil, fmt.Errorf("tensor name %q is reserved or used twice", t.Name)
		}
		seen[t.Name] = true
		name, ok := dtypeNames[t.DType]
		if !ok || len(t.Data) != t.Spec().Bytes() {
			return nil, fmt.Errorf("tensor %q: %v with %d bytes cannot be written", t.Name, t.Spec(), len(t.Data))
		}
		b = appendEntry(b, t, name, offsets[i])
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	if len(b) > MaxHeader {
		return nil, fmt.Errorf("header has %d bytes, over the limit of %d", len(b), MaxHeader)
	}
	return b, nil
}

func appendMetadata(b []byte, metadata map[string]string) []byte {
	b = append(appendString(b, metadataKey), ':', '{')
	for i, k := range slices.Sorted(maps.Keys(metadata)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, k)
		b = append(b, ':')
		b = appendString(b, metadata[k])
	}
	return append(b, '}')
}

func appendEntry(b []byte, t tensor.Named, dtype string, offset int) []byte {
	if len(b) > 1 {
		b = append(b, ',')
	}
	b = appendString(b, t.Name)
	b = fmt.Appendf(b, `:{"dtype":"%s","shape":[`, dtype)
	for i, d := range t.Shape {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Append(b, d)
	}
	return fmt.Appendf(b, `],"data_offsets":[%d,%d]}`, offset, offset+len(t.Data))
}

func appendString(b []byte, s string) []byte {
	q, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always marshals
	}
	return append(b, q...)
}
