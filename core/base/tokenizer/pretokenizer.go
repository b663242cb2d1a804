package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
)

// splitter cuts a text into pieces and hands on those that are not empty. first says of a text,
// and of a piece, that it begins where the whole text does.
type splitter func(text string, first bool, emit func(piece string, first bool))

func splitterOf(p *part) (splitter, error) {
	switch p.Type {
	case "ByteLevel":
		return byteLevelOf(p)
	case "Split":
		return splitOf(p)
	case "Metaspace":
		return metaspaceSplitter(p)
	case "Digits":
		return digitsOf(p)
	case "Punctuation":
		return punctuationOf(p)
	case "WhitespaceSplit":
		return splitBy(runes(unicode.IsSpace), removed), nil
	case "Whitespace":
		return splitBy(words, removed), nil
	case "BertPreTokenizer":
		return bertSplitter, nil
	case "CharDelimiterSplit":
		return delimiterOf(p)
	case "FixedLength":
		return fixedLengthOf(p)
	}
	return nil, p.unknown()
}

// byteLevelOf is GPT-2's: words with the space before them, in the alphabet of bytes.
func byteLevelOf(p *part) (splitter, error) {
	var a struct {
		Prefix   bool  `json:"add_prefix_space"`
		UseRegex *bool `json:"use_regex"`
	}
	err := p.read(&a)
	cut := splitBy(scanner(gpt2Next), isolated)
	whole := a.UseRegex != nil && !*a.UseRegex
	return func(text string, first bool, emit func(string, bool)) {
		if a.Prefix && !strings.HasPrefix(text, " ") {
			text = " " + text
		}
		if whole {
			emit(toChars(text), first)
			return
		}
		cut(text, first, func(piece string, first bool) { emit(toChars(piece), first) })
	}, err
}

func splitOf(p *part) (splitter, error) {
	var a struct {
		Pattern  pattern
		Behavior behavior
		Invert   bool
	}
	if err := p.read(&a); err != nil {
		return nil, err
	}
	find, err := a.Pattern.finder()
	if err != nil {
		return nil, err
	}
	if a.Invert {
		find = inverted(find)
	}
	return splitBy(find, a.Behavior), nil
}

// Values of Metaspace's prepend_scheme: where the replacement is put before a text that does
// not begin with it.
const (
	schemeAlways = "always"
	schemeFirst  = "first" // only at the beginning of the whole text
	schemeNever  = "never"
)

// metaspace writes spaces as another character.
type metaspace struct {
	Replacement string
	Scheme      string `json:"prepend_scheme"`
	Prefix      *bool  `json:"add_prefix_space"` // of older files, instead of the scheme
	Split       *bool
}

func metaspaceOf(p *part) (metaspace, error) {
	m := metaspace{Replacement: "▁"}
	err := p.read(&m)
	if m.Scheme == "" {
		m.Scheme = schemeAlways
		if m.Prefix != nil && !*m.Prefix {
			m.Scheme = schemeNever
		}
	}
	if s := m.Scheme; err == nil && s != schemeAlways && s != schemeFirst && s != schemeNever {
		err = fmt.Errorf("%s: unknown prepend_scheme %q", p.Type, s)
	}
	return m, err
}

func metaspaceSplitter(p *part) (splitter, error) {
	m, err := metaspaceOf(p)
	find, perr := pattern{String: &m.Replacement}.finder()
	if err == nil {
		err = perr
	}
	cut := splitBy(find, mergedWithNext)
	return func(text string, first bool, emit func(string, bool)) {
		text = strings.ReplaceAll(text, " ", m.Replacement)
		if !strings.HasPrefix(text, m.Replacement) && (m.Scheme == schemeAlways || m.Scheme == schemeFirst && first) {
			text = m.Replacement + text
		}
		if m.Split != nil && !*m.Split {
			emit(text, first)
			return
		}
		cut(text, first, emit)
	}, err
}

func digitsOf(p *part) (splitter, error) {
	var a struct {
		Individual bool `json:"individual_digits"`
	}
	err := p.read(&a)
	how := contiguous
	if a.Individual {
		how = isolated
	}
	return splitBy(runes(unicode.IsNumber), how), err
}

func punctuationOf(p *part) (splitter, error) {
	a := struct{ Behavior behavior }{isolated}
	err := p.read(&a)
	return splitBy(runes(isPunctuation), a.Behavior), err
}

// isPunctuation counts the symbols of ASCII as punctuation.
func isPunctuation(r rune) bool {
	return r < 0x80 && unicode.In(r, unicode.P, unicode.S) || unicode.Is(unicode.P, r)
}

// bertSplitter cuts at white space, and around every punctuation mark.
func bertSplitter(text string, first bool, emit func(string, bool)) {
	marks := splitBy(runes(isPunctuation), isolated)
	splitBy(runes(unicode.IsSpace), removed)(text, first, func(word string, first bool) { marks(word, first, emit) })
}

func delimiterOf(p *part) (splitter, error) {
	var a struct{ Delimiter string }
	err := p.read(&a)
	return splitBy(literal(a.Delimiter), removed), err
}

// fixedLengthOf cuts pieces of so many characters.
func fixedLengthOf(p *part) (splitter, error) {
	var a struct{ Length int }
	err := p.read(&a)
	if err == nil && a.Length < 1 {
		err = fmt.Errorf("%s: length = %d", p.Type, a.Length)
	}
	return splitBy(scanner(func(s string) int {
		return run(s, a.Length, func(rune) bool { return true })
	}), isolated), err
}

// words finds what separates words from each other and from runs of other characters: white
// space, the complement of \w+|[^\w\s]+.
func words(text string, found func(lo, hi int, match bool)) {
	class := func(r rune) int {
		switch {
		case isWord(r):
			return 1
		case unicode.IsSpace(r):
			return 2
		}
		return 3
	}
	start, now := 0, 0
	for i, r := range text {
		if c := class(r); c != now {
			if i > start {
				found(start, i, now == 2)
			}
			start, now = i, c
		}
	}
	if start < len(text) {
		found(start, len(text), now == 2)
	}
}
