package text

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/spf13/afero"
)

// Written describes the file that Tokenize wrote.
type Written struct {
	Path       string `json:"path"`
	Files      int    `json:"files"`
	TextBytes  int64  `json:"text_bytes"`
	Tokens     int    `json:"tokens"`
	TokenBytes int    `json:"token_bytes"` // of one
	Vocabulary int    `json:"vocabulary"`
}

// Tokenize encodes text files, named as in the option files, to one token file with llm.c's header,
// and writes a description of the tokens beside it. An existing file at out is replaced once
// everything has been written.
func Tokenize(fsys afero.Fs, files []string, tokenizer, out string) (w Written, err error) {
	paths, err := findFiles(fsys, files)
	if err != nil {
		return w, err
	}
	if len(paths) == 0 {
		return w, errors.New("there are no files to encode; fix: set the option files")
	}
	if isBin(paths[0]) {
		return w, fmt.Errorf("%s is a token file already", paths[0])
	}
	c, err := openCorpus(fsys, settings{files: files, tokenizer: tokenizer}, nil)
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	w = Written{Path: out, Files: len(paths), Tokens: c.stream.tokens(), Vocabulary: c.stream.vocabulary, TokenBytes: widthOf(c.stream.vocabulary)}
	for i := range c.files {
		w.TextBytes += int64(len(c.files[i].data))
	}
	if w.Tokens > math.MaxInt32 {
		return w, fmt.Errorf("%d tokens are more than the header of a token file can say, %d; fix: write several files", w.Tokens, math.MaxInt32)
	}
	m := meta{Tokenizer: tokenizer, Vocabulary: c.stream.vocabulary, Characters: c.names()}
	described, err := json.Marshal(m)
	if err != nil {
		return w, err
	}
	if err := replace(fsys, out+metaSuffix, func(b *bufio.Writer) error { _, err := b.Write(append(described, '\n')); return err }); err != nil {
		return w, err
	}
	return w, replace(fsys, out, func(b *bufio.Writer) error { return c.stream.write(b, w.TokenBytes) })
}

// write writes all tokens with a header.
func (s *stream) write(b *bufio.Writer, width int) error {
	if _, err := b.Write(header(s.tokens(), width)); err != nil {
		return err
	}
	var part [4096]int32
	var packed []byte
	for i := range s.sources {
		src := &s.sources[i]
		for at := 0; at < src.tokens(); at += len(part) {
			v := part[:min(len(part), src.tokens()-at)]
			src.read(v, at)
			packed = pack(packed[:0], v, width)
			if _, err := b.Write(packed); err != nil {
				return err
			}
		}
	}
	return nil
}

// replace writes a file beside path and renames it.
func replace(fsys afero.Fs, path string, write func(*bufio.Writer) error) error {
	f, err := afero.TempFile(fsys, filepath.Dir(path), filepath.Base(path)+".tmp-")
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(f, 1<<20)
	err = write(b)
	err = errors.Join(err, b.Flush(), f.Close())
	if err == nil {
		err = fsys.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = fsys.Rename(f.Name(), path)
	}
	if err != nil {
		_ = fsys.Remove(f.Name()) // the first error is the one to report
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
