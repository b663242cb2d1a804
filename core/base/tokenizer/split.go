package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// finder calls found for every part of a text in order: the matches of a pattern, and what
// lies between them.
type finder func(text string, found func(lo, hi int, match bool))

// pattern is a text or a regular expression to look for.
type pattern struct{ String, Regex *string }

func (p pattern) finder() (finder, error) {
	switch {
	case p.String != nil:
		return literal(*p.String), nil
	case p.Regex == nil:
		return nil, fmt.Errorf("a pattern is neither String nor Regex")
	}
	if next, ok := scanners[*p.Regex]; ok {
		return scanner(next), nil
	}
	re, err := regexp2.Compile(*p.Regex, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("the pattern %q is not supported: %w", *p.Regex, err)
	}
	return regex(re), nil
}

func literal(s string) finder {
	return func(text string, found func(lo, hi int, match bool)) {
		at := 0
		for s != "" {
			i := strings.Index(text[at:], s)
			if i < 0 {
				break
			}
			if i > 0 {
				found(at, at+i, false)
			}
			at += i
			found(at, at+len(s), true)
			at += len(s)
		}
		if at < len(text) {
			found(at, len(text), false)
		}
	}
}

// runes finds characters, each by itself.
func runes(is func(rune) bool) finder {
	return func(text string, found func(lo, hi int, match bool)) {
		start := 0
		for i, r := range text {
			if !is(r) {
				continue
			}
			if i > start {
				found(start, i, false)
			}
			start = i + utf8.RuneLen(r)
			found(i, start, true)
		}
		if start < len(text) {
			found(start, len(text), false)
		}
	}
}

// regex finds matches of an expression, which counts in characters.
func regex(re *regexp2.Regexp) finder {
	return func(text string, found func(lo, hi int, match bool)) {
		all := []rune(text)
		at, done := 0, 0 // in bytes: of the character at, and of what was found
		char := 0
		seek := func(to int) int {
			for ; char < to; char++ {
				at += utf8.RuneLen(all[char])
			}
			return at
		}
		for m, err := re.FindRunesMatch(all); m != nil && err == nil; m, err = re.FindNextMatch(m) {
			if m.Length == 0 {
				continue
			}
			lo := seek(m.Index)
			hi := seek(m.Index + m.Length)
			if lo > done {
				found(done, lo, false)
			}
			found(lo, hi, true)
			done = hi
		}
		if done < len(text) {
			found(done, len(text), false)
		}
	}
}

func inverted(f finder) finder {
	return func(text string, found func(lo, hi int, match bool)) {
		f(text, func(lo, hi int, match bool) { found(lo, hi, !match) })
	}
}

// behavior is what becomes of matches.
type behavior int

const (
	removed            behavior = iota
	isolated                    // pieces of their own
	mergedWithPrevious          // with the text before them
	mergedWithNext              // with the text after them
	contiguous                  // those without text in between together
)

func (b *behavior) UnmarshalJSON(raw []byte) error {
	var name string
	if err := json.Unmarshal(raw, &name); err != nil {
		return err
	}
	for i, known := range []string{"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"} {
		if name == known {
			*b = behavior(i)
			return nil
		}
	}
	return fmt.Errorf("unknown behavior %q", name)
}

// splitBy cuts where a finder finds something. It keeps at most one part back.
func splitBy(find finder, how behavior) splitter {
	return func(text string, first bool, emit func(string, bool)) {
		lo, hi, match := 0, 0, false // of the part kept back; empty: none
		flush := func() {
			if hi > lo {
				emit(text[lo:hi], first && lo == 0)
			}
		}
		find(text, func(a, b int, is bool) {
			joins := false
			switch how {
			case removed:
				if is {
					return
				}
			case mergedWithPrevious:
				joins = is && !match
			case mergedWithNext:
				joins = match && !is
			case contiguous:
				joins = is == match
			}
			if joins && hi == a {
				hi = b
			} else {
				flush()
				lo, hi = a, b
			}
			match = is
		})
		flush()
	}
}
