package text

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/tokenizer"
	"github.com/trainctl/trainctl/core/base/usererr"
)

// corpus is the content of the files: tokens, and the tokenizer if it is known.
type corpus struct {
	stream    stream
	tokenizer tokenizer.Tokenizer
	named     string // its name for tokenizer.Open; "" if it is not known
	files     []mapped
	generated bool
}

func (c *corpus) close() error { return closeAll(c.files) }

// names returns the characters of the tokens; nil if tokens are not characters.
func (c *corpus) names() []string {
	if t, ok := c.tokenizer.(*tokenizer.Chars); ok {
		return t.Names()
	}
	return nil
}

// openCorpus opens the files of the options, or generates sentences if there are none.
func openCorpus(fsys afero.Fs, s settings, log *slog.Logger) (*corpus, error) {
	paths, err := findFiles(fsys, s.files)
	var none errNoFiles
	switch {
	case len(s.files) == 0, errors.As(err, &none) && s.generate:
		c, err := encodeTexts(fsys, s, []mapped{{path: "generated text", data: generate(generatedBytes), heap: true}}, log)
		if err == nil {
			c.generated = true
		}
		return c, err
	case err != nil:
		return nil, err
	}
	files, err := mapFiles(fsys, paths)
	if err != nil {
		return nil, err
	}
	var c *corpus
	if isBin(paths[0]) {
		c, err = openBins(fsys, s, files)
	} else {
		c, err = encodeTexts(fsys, s, files, log)
	}
	if err != nil {
		return nil, errors.Join(err, closeAll(files))
	}
	c.files = files
	return c, nil
}

// encodeTexts encodes text files.
func encodeTexts(fsys afero.Fs, s settings, files []mapped, log *slog.Logger) (*corpus, error) {
	if s.vocabulary > 0 {
		return nil, usererr.Errorf("vocabulary", "remove it: the tokenizer says how many tokens it has", "is for token files")
	}
	c := &corpus{}
	var err error
	if c.named = s.tokenizer; s.tokenizer == tokenizer.NameChars {
		c.tokenizer, err = charsOf(files)
	} else {
		c.tokenizer, err = tokenizer.Open(fsys, s.tokenizer, nil)
	}
	if err != nil {
		return nil, err
	}
	c.stream.vocabulary = c.tokenizer.Vocabulary()
	for i := range files {
		src, err := encodeFile(c.tokenizer, &files[i], log)
		if err != nil {
			return nil, err
		}
		c.stream.sources = append(c.stream.sources, src)
	}
	return c, nil
}

func charsOf(files []mapped) (tokenizer.Tokenizer, error) {
	texts := make([]string, len(files))
	for i := range files {
		texts[i] = files[i].text()
		if err := tokenizer.CheckUTF8(texts[i]); err != nil {
			return nil, badText(files[i].path, err)
		}
	}
	return tokenizer.CharsOf(texts...)
}

func badText(path string, err error) error {
	var invalid *tokenizer.InvalidError
	if errors.As(err, &invalid) {
		return fmt.Errorf("%s: %w; fix: convert it to UTF-8, or set tokenizer = %q", path, err, TokenizerBytes)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// slowText is the size in bytes from which encoding a text at every start takes long.
const slowText = 32 << 20

// encodeFile encodes a text. If every byte is a token, the file's bytes are used as tokens.
func encodeFile(t tokenizer.Tokenizer, m *mapped, log *slog.Logger) (source, error) {
	if table := byteTable(t, m.data); table != nil {
		return source{path: m.path, data: m.data, width: 1, table: table}, nil
	}
	if log != nil && len(m.data) >= slowText {
		log.Info("encoding text at every start; `trainctl data tokenize` does it once", "file", m.path, "bytes", len(m.data))
	}
	ids, err := t.Append(nil, m.text(), false)
	if err != nil {
		return source{}, badText(m.path, err)
	}
	if len(ids) == 0 {
		return source{}, fmt.Errorf("%s has no tokens", m.path)
	}
	s := source{path: m.path, width: widthOf(t.Vocabulary())}
	s.data = pack(make([]byte, 0, len(ids)*s.width), ids, s.width)
	return s, nil
}

// widthOf is the size of a token in bytes.
func widthOf(vocabulary int) int {
	if vocabulary <= 1<<16 {
		return 2
	}
	return 4
}

func pack(to []byte, ids []int32, width int) []byte {
	for _, id := range ids {
		if width == 2 {
			to = binary.LittleEndian.AppendUint16(to, uint16(id))
		} else {
			to = binary.LittleEndian.AppendUint32(to, uint32(id))
		}
	}
	return to
}

// byteTable returns the token of each byte; nil if tokens are not bytes of this text.
func byteTable(t tokenizer.Tokenizer, data []byte) *[256]int32 {
	var table [256]int32
	switch t := t.(type) {
	case tokenizer.Bytes:
		for i := range table {
			table[i] = int32(i)
		}
	case *tokenizer.Chars:
		if slices.ContainsFunc(data, func(b byte) bool { return b >= 0x80 }) {
			return nil
		}
		for i, name := range t.Names() {
			if len(name) == 1 {
				table[name[0]] = int32(i)
			}
		}
	default:
		return nil
	}
	return &table
}
