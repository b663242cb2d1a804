package mnist

import (
	"context"
	"fmt"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/datasets/digits"
)

// split is one part of the data in memory. Generated images are drawn when
// they are first asked for and kept: a rank draws its own share only, and
// nothing waits for it at the start.
type split struct {
	images []byte // imageBytes each
	labels []byte

	stream digits.Stream
	drawn  []bool // nil when all images are there
}

func (s *split) samples() int { return len(s.labels) }

// image gives the pixels of one sample; they stay the split's.
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

func (s *search) generated() *found {
	notice := fmt.Sprintf("TRAINING ON GENERATED DIGITS, NOT ON %[1]s: there is no data in %[2]s or $%[3]s and none was downloaded. "+
		"The accuracy says nothing about %[1]s. Put the files of %[1]s into %[2]s to train on them; fallback = %[4]q stops instead.",
		s.title, s.root, dataEnv, fallbackError)
	s.log.Log(context.Background(), s.loud, "no data found, drawing digits instead\n"+s.report())
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
