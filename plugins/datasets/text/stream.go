package text

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"
)

// source is one file's tokens.
type source struct {
	path  string
	data  []byte      // tokens of Width bytes, little-endian
	width int         // 1, 2 or 4
	skip  int         // bytes of the file before data
	table *[256]int32 // token of each byte, where width is 1
}

func (s *source) tokens() int { return len(s.data) / s.width }

// read converts the tokens from index from on.
func (s *source) read(dst []int32, from int) {
	data := s.data[from*s.width:]
	switch s.width {
	case 1:
		for i := range dst {
			dst[i] = s.table[data[i]]
		}
	case 2:
		for i := range dst {
			dst[i] = int32(binary.LittleEndian.Uint16(data[2*i:]))
		}
	default:
		for i := range dst {
			dst[i] = int32(binary.LittleEndian.Uint32(data[4*i:]))
		}
	}
}

// stream is the tokens of all files, one after the other.
type stream struct {
	sources    []source
	vocabulary int
}

func (s *stream) tokens() (n int) {
	for i := range s.sources {
		n += s.sources[i].tokens()
	}
	return n
}

// read fills dst with the tokens from index from on, which must exist, and checks them.
func (s *stream) read(dst []int32, from int) error {
	for i := range s.sources {
		src := &s.sources[i]
		n := src.tokens()
		if from >= n {
			from -= n
			continue
		}
		part := dst[:min(len(dst), n-from)]
		src.read(part, from)
		for k, t := range part {
			if uint32(t) >= uint32(s.vocabulary) {
				return fmt.Errorf("%s: token %d at byte %d is %d, but the vocabulary has %d; fix: set the option vocabulary, or dtype if the tokens are of another type",
					src.path, from+k, src.skip+(from+k)*src.width, uint32(t), s.vocabulary)
			}
		}
		if dst = dst[len(part):]; len(dst) == 0 {
			return nil
		}
		from = 0
	}
	return io.ErrUnexpectedEOF
}

// largest is the largest token of all.
func (s *stream) largest() (most uint32) {
	var part [4096]int32
	for i := range s.sources {
		src := &s.sources[i]
		for at := 0; at < src.tokens(); at += len(part) {
			v := part[:min(len(part), src.tokens()-at)]
			src.read(v, at)
			for _, t := range v {
				most = max(most, uint32(t))
			}
		}
	}
	return most
}

// hashWhole is the size of the largest source that is hashed completely; of a larger one, only the ends are.
const (
	hashWhole = 1 << 28
	hashEnds  = 1 << 24
)

// hash identifies the tokens.
func (s *stream) hash() uint64 {
	h := xxhash.New()
	for i := range s.sources {
		src := &s.sources[i]
		fmt.Fprintf(h, "%d %d;", src.width, len(src.data))
		if src.table != nil {
			fmt.Fprint(h, *src.table)
		}
		if len(src.data) <= hashWhole {
			_, _ = h.Write(src.data)
			continue
		}
		_, _ = h.Write(src.data[:hashEnds])
		_, _ = h.Write(src.data[len(src.data)-hashEnds:])
	}
	return h.Sum64()
}
