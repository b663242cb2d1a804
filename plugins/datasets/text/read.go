package text

import (
	"fmt"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Extensions implements [sdk.DatasetReader].
func (d *Dataset) Extensions() []string { return []string{".bin", ".txt"} }

// Read implements [sdk.DatasetReader]: the windows of a text or token file, with the tokenizer of
// the data set. A remainder that is shorter than a window is left out.
func (d *Dataset) Read(o sdk.Options, path string) (_ []byte, err error) {
	s, err := parseSettings(o)
	if err != nil {
		return nil, err
	}
	tokens, err := d.tokensOf(s, path)
	if err != nil {
		return nil, err
	}
	n := len(tokens) / s.context
	if n == 0 {
		return nil, fmt.Errorf("%s has %d tokens, and a sample has %d; fix: give longer files", path, len(tokens), s.context)
	}
	return tensor.Bytes(tokens[:n*s.context]), nil
}

// tokensOf returns the tokens of a file. Characters are numbered as in the data set's own files.
func (d *Dataset) tokensOf(s settings, path string) (tokens []int32, err error) {
	if d.reading == nil {
		if d.reading, err = openCorpus(d.fs, s, nil); err != nil {
			return nil, err
		}
	}
	own := d.reading
	files, err := mapFiles(d.fs, []string{path})
	if err != nil {
		return nil, err
	}
	defer closeAll(files)
	if !isBin(path) {
		if own.tokenizer == nil {
			return nil, fmt.Errorf("%s is text, and the data set has tokens of an unknown tokenizer; fix: give token files, or set dataset.options.tokenizer", path)
		}
		tokens, err := own.tokenizer.Append(nil, files[0].text(), false)
		if err != nil {
			return nil, badText(path, err)
		}
		return tokens, nil
	}
	src, err := sourceOf(&files[0], s.wide)
	if err != nil {
		return nil, err
	}
	all := stream{sources: []source{src}, vocabulary: own.stream.vocabulary}
	tokens = make([]int32, all.tokens())
	return tokens, all.read(tokens, 0)
}

var _ sdk.DatasetReader = (*Dataset)(nil)
