package cifar10

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"hash/crc32"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets/shapes"
	"github.com/trainctl/trainctl/plugins/datasets/source"
)

// split is one part of the data: records in memory, or a stream of images that are
// drawn on request.
type split struct {
	n       int
	records []byte // nil when drawn
	stream  shapes.Stream
}

// sample returns the planes and the class of one sample; room is the buffer for a drawn one.
func (s *split) sample(i int, room []byte) (image []byte, label int) {
	if s.records == nil {
		return room, s.stream.Draw(i, room)
	}
	r := s.records[i*recordBytes : (i+1)*recordBytes]
	return r[1:], int(r[0])
}

// label returns the class of one sample.
func (s *split) label(i int) int {
	if s.records == nil {
		return s.stream.Label(i)
	}
	return int(s.records[i*recordBytes])
}

// found is the data of a successful search.
type found struct {
	source  string
	classes []string
	notice  string
	splits  [2]*split
}

// limit shortens the splits to the sizes in the options.
func (f *found) limit(o settings) error {
	var l usererr.List
	for i, key := range []string{"train_samples", "test_samples"} {
		want, s := o.Samples[i], f.splits[i]
		if want > s.n {
			l.Addf(key, "remove the key to use all samples", "%d is more than the %d samples of the data set", want, s.n)
		} else if want > 0 {
			s.n = want
		}
	}
	return l.Err()
}

// fingerprint returns the SHA-256 over counts, classes and the CRC-32 of all
// records: a SHA-256 of the records would take most of a second at every start.
// Drawn images are identified by the version of their generator.
func (f *found) fingerprint() string {
	h := sha256.New()
	for _, s := range f.splits {
		number(h, uint64(s.n))
		if s.records == nil {
			number(h, uint64(s.stream))
			number(h, shapes.Version)
			continue
		}
		used := s.records[:s.n*recordBytes]
		labels := make([]byte, s.n)
		for i := range labels {
			labels[i] = used[i*recordBytes]
		}
		h.Write(labels)
		number(h, uint64(crc32.ChecksumIEEE(used)))
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func number(h hash.Hash, n uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	h.Write(b[:])
}

// Generated returns images that package shapes draws.
func (s *search) Generated() *found {
	notice := fmt.Sprintf("TRAINING ON GENERATED SHAPES, NOT ON CIFAR-10: %[1]s and $%[2]s have no data and none was downloaded. "+
		"The accuracy says nothing about CIFAR-10. Put %[3]s into %[1]s to train on it; fallback = %[4]q stops instead.",
		s.Root, source.Env, archive, source.FallbackError)
	return &found{
		source: SourceGenerated, classes: shapes.Names, notice: notice,
		splits: [2]*split{
			sdk.Train: {n: trainFiles * s.records, stream: shapes.Train},
			sdk.Test:  {n: s.records, stream: shapes.Test},
		},
	}
}
