package text

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/tokenizer"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// The values of DatasetSpec.Source.
const (
	SourceFiles     = "files"
	SourceTokens    = "tokens"
	SourceGenerated = "generated"
)

// Dataset is one open data set. The zero value is not usable; see [New].
type Dataset struct {
	fs      afero.Fs
	corpus  *corpus // nil while it is not open
	reading *corpus // whose tokenizer Read uses; nil before the first call
	splits  [2]windows
	row     []int32 // the tokens of one sample and its last target
}

// New returns a data set of the files in fs.
func New(fs afero.Fs) *Dataset { return &Dataset{fs: fs} }

// windows are the samples of a split: the first begins at the beginning of a part of the stream,
// and the others every stride tokens after it, as long as every token has a target.
type windows struct {
	from, tokens    int // of the stream
	context, stride int
}

// count is the number of samples.
func (w windows) count() int {
	if w.tokens < w.context+1 {
		return 0
	}
	return (w.tokens-w.context-1)/w.stride + 1
}

// at is where a sample begins in the stream.
func (w windows) at(index int64) int { return w.from + int(index)*w.stride }

// divide makes the splits of n tokens.
func (s *settings) divide(n int) (splits [2]windows, err error) {
	train := n
	if s.validation > 0 {
		train = int(float64(n) * (1 - s.validation)) // as in nanoGPT's prepare.py
	}
	splits[sdk.Train] = windows{0, train, s.context, s.stride}
	splits[sdk.Test] = windows{train, n - train, s.context, s.stride}
	switch {
	case splits[sdk.Train].count() == 0:
		return splits, usererr.Errorf("context", "make it smaller, or give more text",
			"a sample needs %d tokens, context and one, but there are only %d to train on", s.context+1, train)
	case s.validation > 0 && splits[sdk.Test].count() == 0:
		return splits, usererr.Errorf("validation", "make it larger, or 0, or context smaller",
			"a sample needs %d tokens, context and one, but the last %v of the text has only %d", s.context+1, s.validation, n-train)
	}
	return splits, nil
}

// Open finds and maps the files, and encodes them if they are text.
func (d *Dataset) Open(_ context.Context, req sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	s, err := parseSettings(req.Options)
	if err != nil {
		return sdk.DatasetSpec{}, err
	}
	log := req.Log
	if req.LocalRank != 0 {
		log = nil // local rank 0 logs for all
	}
	c, err := openCorpus(d.fs, s, log)
	if err != nil {
		return sdk.DatasetSpec{}, err
	}
	spec, err := d.take(c, s)
	if err != nil {
		return sdk.DatasetSpec{}, errors.Join(err, c.close())
	}
	return spec, nil
}

// take makes c the data set's corpus, and describes it.
func (d *Dataset) take(c *corpus, s settings) (spec sdk.DatasetSpec, err error) {
	splits, err := s.divide(c.stream.tokens())
	if err != nil {
		return spec, err
	}
	row := tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{s.context}}
	spec = sdk.DatasetSpec{
		Source: SourceFiles, Input: row, Target: row, Vocabulary: c.stream.vocabulary, Classes: c.stream.vocabulary,
		TrainSamples: splits[sdk.Train].count(), TestSamples: splits[sdk.Test].count(),
		Fingerprint: fmt.Sprintf("xxh64:%016x context %d stride %d validation %v vocabulary %d", c.stream.hash(), s.context, s.stride, s.validation, c.stream.vocabulary),
	}
	if names := c.names(); len(names) == spec.Classes {
		spec.ClassNames = names
	}
	if spec.Tokenizer = c.named; c.named == tokenizer.NameChars && spec.ClassNames == nil {
		spec.Tokenizer = "" // the vocabulary has more tokens than the characters
	}
	switch {
	case c.generated:
		spec.Source, spec.Notice = SourceGenerated, generatedNotice
	case isBin(c.files[0].path):
		spec.Source = SourceTokens
	}
	if spec.TestBytes, err = c.targetBytes(splits[sdk.Test]); err != nil {
		return spec, err
	}
	d.corpus, d.splits, d.row = c, splits, make([]int32, s.context+1)
	return spec, nil
}

// targetBytes is how many bytes of text the targets of a split stand for; 0 if unknown.
func (c *corpus) targetBytes(w windows) (total int64, err error) {
	if c.tokenizer == nil {
		return 0, nil
	}
	row := make([]int32, w.context)
	for i := range w.count() {
		if err := c.stream.read(row, w.at(int64(i))+1); err != nil {
			return 0, err
		}
		for _, t := range row {
			n, known := c.tokenizer.Bytes(t)
			if !known {
				return 0, nil
			}
			total += int64(n)
		}
	}
	return total, nil
}

// Describe opens the files and closes them again: vocabulary and samples follow from what
// they contain.
func (d *Dataset) Describe(o sdk.Options) (sdk.DatasetSpec, error) {
	other := New(d.fs)
	spec, err := other.Open(context.Background(), sdk.DatasetRequest{Options: o})
	spec.Source, spec.Fingerprint = "", ""
	return spec, errors.Join(err, other.Close())
}

// Locate looks for the files.
func (d *Dataset) Locate(o sdk.Options) error {
	s, err := parseSettings(o)
	if err != nil {
		return err
	}
	var none errNoFiles
	if _, err = findFiles(d.fs, s.files); errors.As(err, &none) && s.generate {
		return nil
	}
	return err
}

var errNotOpen = errors.New("text: the data set is not open")

// Fill writes windows of tokens and the tokens one later. It allocates nothing.
func (d *Dataset) Fill(ctx context.Context, b *sdk.Batch) error {
	if d.corpus == nil || int(b.Split) >= len(d.splits) {
		return errNotOpen
	}
	w, n := d.splits[b.Split], len(b.Indices)
	if want := n * w.context * 4; len(b.Input) != want || len(b.Target) != want {
		return fmt.Errorf("text: %d samples need %d bytes of tokens and of targets, the batch has %d and %d", n, want, len(b.Input), len(b.Target))
	}
	input, target := tensor.View[int32](b.Input), tensor.View[int32](b.Target)
	for i, index := range b.Indices {
		if err := ctx.Err(); err != nil {
			return err
		}
		if index < 0 || index >= int64(w.count()) {
			return fmt.Errorf("text: index %d is out of range for %d samples", index, w.count())
		}
		if err := d.corpus.stream.read(d.row, w.at(index)); err != nil {
			return sdk.Corrupt(err)
		}
		copy(input[i*w.context:(i+1)*w.context], d.row)
		copy(target[i*w.context:(i+1)*w.context], d.row[1:])
	}
	return nil
}

// Close unmaps the files. It may be called more than once.
func (d *Dataset) Close() (err error) {
	for _, c := range []**corpus{&d.corpus, &d.reading} {
		if *c != nil {
			err = errors.Join(err, (*c).close())
		}
		*c = nil
	}
	return err
}

var (
	_ sdk.Dataset          = (*Dataset)(nil)
	_ sdk.DatasetDescriber = (*Dataset)(nil)
	_ sdk.DatasetLocator   = (*Dataset)(nil)
)
