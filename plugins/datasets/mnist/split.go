package mnist

import (
	"fmt"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets/digits"
	"github.com/trainctl/trainctl/plugins/datasets/source"
)

// split is one part of the data in memory. Generated images are drawn on first use
// and kept: a rank draws only its own share, and the start does not wait for it.
type split struct {
	images []byte // imageBytes each
	labels []byte

	stream digits.Stream
	drawn  []bool // nil when all images are there
}

func (s *split) samples() int { return len(s.labels) }

// image returns the pixels of one sample, which the split owns.
func (s *split) image(i int) []byte {
	p := s.images[i*imageBytes : (i+1)*imageBytes]
	if s.drawn != nil && !s.drawn[i] {
		s.stream.Draw(i, p)
		s.drawn[i] = true
	}
	return p
}

// Sizes of the generated splits, those of MNIST.
const (
	generatedTrain = 60000
	generatedTest  = 10000
)

// Generated returns digits that package digits draws.
func (s *search) Generated() *found {
	notice := fmt.Sprintf("TRAINING ON GENERATED DIGITS, NOT ON %[1]s: %[2]s and $%[3]s have no data and none was downloaded. "+
		"The accuracy says nothing about %[1]s. Put the files of %[1]s into %[2]s to train on them; fallback = %[4]q stops instead.",
		s.title, s.Root, source.Env, source.FallbackError)
	return &found{
		source:  SourceGenerated,
		classes: digitNames,
		notice:  notice,
		splits: [2]*split{
			sdk.Train: drawnSplit(digits.Train, generatedTrain),
			sdk.Test:  drawnSplit(digits.Test, generatedTest),
		},
	}
}

func drawnSplit(stream digits.Stream, n int) *split {
	s := &split{images: make([]byte, n*imageBytes), labels: make([]byte, n), stream: stream, drawn: make([]bool, n)}
	for i := range s.labels {
		s.labels[i] = byte(stream.Label(i))
	}
	return s
}
