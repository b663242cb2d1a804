package text

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/tokenizer"
)

// The header of llm.c's token files (dev/data/data_common.py): 256 int32, of which the first
// three are a magic number, a version and the number of tokens. The pairs of magic number and
// version tell the type: those of GPT-2's files are uint16, those of Llama 3's uint32.
const (
	headerInts  = 256
	headerBytes = 4 * headerInts

	magic16, version16 = 20240520, 1
	magic32, version32 = 20240801, 7
)

// sourceOf returns the tokens of a token file: one with llm.c's header, or one of tokens alone, as nanoGPT
// writes them.
func sourceOf(m *mapped, wide bool) (source, error) {
	s := source{path: m.path, data: m.data, width: 2}
	if wide {
		s.width = 4
	}
	if tokens, width, ok := readHeader(m.data); ok {
		s.data, s.width, s.skip = m.data[headerBytes:], width, headerBytes
		if len(s.data) != tokens*width {
			return s, fmt.Errorf("%s has %d bytes after its header, which says %d tokens of %d bytes: it is cut short or damaged", m.path, len(s.data), tokens, width)
		}
	}
	if len(s.data)%s.width != 0 {
		return s, fmt.Errorf("%s has %d bytes, which is not a whole number of %d-byte tokens; fix: write it again, or set the option dtype if its tokens are of another type", m.path, len(s.data), s.width)
	}
	if len(s.data) == 0 {
		return s, fmt.Errorf("%s has no tokens", m.path)
	}
	return s, nil
}

// readHeader reads llm.c's header, if there is one.
func readHeader(b []byte) (tokens, width int, ok bool) {
	if len(b) < headerBytes {
		return 0, 0, false
	}
	magic, version := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	tokens = int(binary.LittleEndian.Uint32(b[8:]))
	switch {
	case magic == magic16 && version == version16:
		return tokens, 2, true
	case magic == magic32 && version == version32:
		return tokens, 4, true
	}
	return 0, 0, false
}

func header(tokens, width int) []byte {
	b := make([]byte, headerBytes)
	magic, version := uint32(magic16), uint32(version16)
	if width == 4 {
		magic, version = magic32, version32
	}
	for i, v := range []uint32{magic, version, uint32(tokens)} {
		binary.LittleEndian.PutUint32(b[4*i:], v)
	}
	return b
}

// meta is the description beside a token file F.bin, in F.bin.json: what its tokens mean.
type meta struct {
	Tokenizer  string   `json:"tokenizer"` // "bytes", "chars", or the path of the tokenizer.json
	Vocabulary int      `json:"vocabulary"`
	Characters []string `json:"characters,omitempty"` // by token, of "chars"
}

// readMeta returns nil if a token file has no description.
func readMeta(fsys afero.Fs, path string) (*meta, error) {
	b, err := afero.ReadFile(fsys, path+metaSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := &meta{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%s: %w", path+metaSuffix, err)
	}
	if m.Vocabulary < 1 || m.Tokenizer == TokenizerChars && len(m.Characters) != m.Vocabulary {
		return nil, fmt.Errorf("%s: a vocabulary of %d with %d characters", path+metaSuffix, m.Vocabulary, len(m.Characters))
	}
	return m, nil
}

func (m *meta) equal(o *meta) bool {
	if m == nil || o == nil {
		return m == o
	}
	return m.Vocabulary == o.Vocabulary && m.Tokenizer == o.Tokenizer && slices.Equal(m.Characters, o.Characters)
}

// openBins reads token files. The tokenizer is nil if it is unknown.
func openBins(fsys afero.Fs, s settings, files []mapped) (*corpus, error) {
	c := &corpus{}
	var described *meta
	for i := range files {
		src, err := sourceOf(&files[i], s.wide)
		if err != nil {
			return nil, err
		}
		c.stream.sources = append(c.stream.sources, src)
		m, err := readMeta(fsys, src.path)
		if err != nil {
			return nil, err
		}
		if i > 0 && !m.equal(described) {
			return nil, fmt.Errorf("%s and %s have tokens of different tokenizers; fix: write them with one", files[0].path, src.path)
		}
		described = m
	}
	var err error
	var characters []string
	switch {
	case s.tokenizer != TokenizerBytes && s.tokenizer != TokenizerChars:
		c.named = s.tokenizer
	case described != nil && (described.Tokenizer == TokenizerBytes || described.Tokenizer == TokenizerChars):
		c.named, characters = described.Tokenizer, described.Characters
	}
	if c.named != "" {
		c.tokenizer, err = tokenizer.Open(fsys, c.named, characters)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case s.vocabulary > 0:
		c.stream.vocabulary = s.vocabulary
	case c.tokenizer != nil:
		c.stream.vocabulary = c.tokenizer.Vocabulary()
	case described != nil:
		c.stream.vocabulary = described.Vocabulary
	default:
		most := c.stream.largest()
		if most >= maxVocabulary {
			return nil, fmt.Errorf("%s has the token %d, so its tokens are not of the type that the option dtype says", files[0].path, most)
		}
		c.stream.vocabulary = int(most) + 1
	}
	return c, nil
}

// maxVocabulary is larger than any vocabulary: greater values are not tokens.
const maxVocabulary = 1 << 26
