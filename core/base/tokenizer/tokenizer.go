package tokenizer

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// Tokenizer maps text to tokens in [0, Vocabulary()) and back. It belongs to one goroutine.
type Tokenizer interface {
	// Vocabulary is the number of tokens: the largest and one.
	Vocabulary() int

	// Append appends the tokens of a text. With special, those that the tokenizer puts around
	// a text for a model are added, such as <|begin_of_text|>. The error is an *InvalidError or
	// an *UnknownError.
	Append(tokens []int32, text string, special bool) ([]int32, error)

	// Decode is the text of tokens. Bytes that are not UTF-8 become U+FFFD.
	Decode(tokens []int32) string

	// Bytes is how many bytes of text a token stands for; false if that is not fixed.
	Bytes(token int32) (n int, known bool)
}

// Names of tokenizers; any other is the path of a tokenizer.json, or of a folder with one.
const (
	NameBytes = "bytes"
	NameChars = "chars"
)

// Open returns the tokenizer of a name. characters are those of NameChars.
func Open(fsys afero.Fs, name string, characters []string) (Tokenizer, error) {
	switch name {
	case NameBytes:
		return Bytes{}, nil
	case NameChars:
		return NewChars(characters)
	}
	if dir, err := afero.IsDir(fsys, name); dir && err == nil {
		name = filepath.Join(name, "tokenizer.json")
	}
	b, err := afero.ReadFile(fsys, name)
	if err != nil {
		return nil, usererr.Errorf("tokenizer", `write "bytes", "chars" or the path of a tokenizer.json`, "%v", err)
	}
	t, err := parse(b)
	if err != nil {
		return nil, usererr.Errorf("tokenizer", "use a byte pair encoding of the parts that docs/datasets.md lists, or write the tokens to a .bin file with the library that the file is for", "%s: %v", name, err)
	}
	return t, nil
}

// InvalidError says that a text is not UTF-8.
type InvalidError struct{ Offset int }

func (e *InvalidError) Error() string {
	return fmt.Sprintf("invalid UTF-8 at byte %d", e.Offset)
}

// UnknownError says that a character has no token.
type UnknownError struct {
	Offset    int
	Character rune
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("the character %q (U+%04X) at byte %d is not in the vocabulary", e.Character, e.Character, e.Offset)
}

// CheckUTF8 returns an *InvalidError unless a text is UTF-8.
func CheckUTF8(text string) error {
	if utf8.ValidString(text) {
		return nil
	}
	for i := 0; ; {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 {
			return &InvalidError{i}
		}
		i += n
	}
}

// Bytes is the tokenizer whose tokens are the bytes of a text, of any encoding.
type Bytes struct{}

// Vocabulary is 256.
func (Bytes) Vocabulary() int { return 256 }

// Append implements [Tokenizer]; it returns no error.
func (Bytes) Append(tokens []int32, text string, _ bool) ([]int32, error) {
	tokens = slices.Grow(tokens, len(text))
	for i := range len(text) {
		tokens = append(tokens, int32(text[i]))
	}
	return tokens, nil
}

// Decode implements [Tokenizer].
func (Bytes) Decode(tokens []int32) string {
	b := make([]byte, len(tokens))
	for i, t := range tokens {
		b[i] = byte(t)
	}
	return lossy(b)
}

// Bytes is 1.
func (Bytes) Bytes(int32) (int, bool) { return 1, true }

// Chars is a tokenizer whose tokens are single characters.
type Chars struct {
	names []string
	ids   map[rune]int32
}

// NewChars has the given characters, by token, as [Chars.Names] returns them.
func NewChars(names []string) (*Chars, error) {
	c := &Chars{names: names, ids: make(map[rune]int32, len(names))}
	for i, s := range names {
		r, n := utf8.DecodeRuneInString(s)
		if n == 0 || n != len(s) || r == utf8.RuneError && n == 1 {
			return nil, fmt.Errorf("entry %d of the vocabulary is %q, not one character", i, s)
		}
		if first, twice := c.ids[r]; twice {
			return nil, fmt.Errorf("entries %d and %d of the vocabulary are both %q", first, i, s)
		}
		c.ids[r] = int32(i)
	}
	return c, nil
}

// CharsOf has the characters of texts, in the order of their code points.
func CharsOf(texts ...string) (*Chars, error) {
	seen := map[rune]bool{}
	var common [utf8.RuneSelf]bool // of those that are one byte
	for _, t := range texts {
		if err := CheckUTF8(t); err != nil {
			return nil, err
		}
		for _, r := range t {
			if r >= utf8.RuneSelf {
				seen[r] = true
			} else if !common[r] {
				common[r], seen[r] = true, true
			}
		}
	}
	var names []string
	for _, r := range slices.Sorted(maps.Keys(seen)) {
		names = append(names, string(r))
	}
	return NewChars(names)
}

// Names are the characters by token.
func (c *Chars) Names() []string { return c.names }

// Vocabulary is the number of characters.
func (c *Chars) Vocabulary() int { return len(c.names) }

// Append implements [Tokenizer]. The error is an *InvalidError or an *UnknownError.
func (c *Chars) Append(tokens []int32, text string, _ bool) ([]int32, error) {
	if err := CheckUTF8(text); err != nil {
		return tokens, err
	}
	for i, r := range text {
		id, ok := c.ids[r]
		if !ok {
			return tokens, &UnknownError{i, r}
		}
		tokens = append(tokens, id)
	}
	return tokens, nil
}

// Decode implements [Tokenizer].
func (c *Chars) Decode(tokens []int32) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString(c.names[t])
	}
	return b.String()
}

// Bytes is the length of a character in UTF-8.
func (c *Chars) Bytes(token int32) (int, bool) { return len(c.names[token]), true }

// lossy is UTF-8 in which each longest part that begins no valid character is one U+FFFD, as
// the Unicode standard recommends (section 3.9, "U+FFFD Substitution of Maximal Subparts").
func lossy(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n = brokenPart(b)
		}
		out.WriteRune(r)
		b = b[n:]
	}
	return out.String()
}

// brokenPart is the length of the longest beginning of b that could begin a character, at
// least 1.
func brokenPart(b []byte) int {
	lo, hi, more := byte(0x80), byte(0xbf), 0
	switch c := b[0]; {
	case c >= 0xc2 && c <= 0xdf:
		more = 1
	case c >= 0xe0 && c <= 0xef:
		more = 2
	case c >= 0xf0 && c <= 0xf4:
		more = 3
	}
	switch b[0] { // the second byte of shorter forms, of surrogates and of what is beyond Unicode
	case 0xe0:
		lo = 0xa0
	case 0xed:
		hi = 0x9f
	case 0xf0:
		lo = 0x90
	case 0xf4:
		hi = 0x8f
	}
	n := 1
	for ; n <= more && n < len(b) && b[n] >= lo && b[n] <= hi; n++ {
		lo, hi = 0x80, 0xbf
	}
	return n
}

var (
	_ Tokenizer = Bytes{}
	_ Tokenizer = (*Chars)(nil)
)
