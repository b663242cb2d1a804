package tokenizer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that is cut out of a text before the model sees it.
type addedToken struct {
	ID         int32
	Content    string
	SingleWord bool `json:"single_word"` // only between characters of no word
	LStrip     bool // takes the white space before it
	RStrip     bool // and after it
	Normalized bool // looked for in the normalised text, normalised itself
	Special    bool // left out when decoding
}

// addedTokens finds them: those that are not normalised in the text as it is, the others in
// what is left, normalised.
type addedTokens struct {
	raw, normal tokenSet
	special     map[int32]bool
}

func newAddedTokens(list []addedToken, normalize func(string) string) addedTokens {
	a := addedTokens{special: map[int32]bool{}}
	for _, t := range list {
		a.special[t.ID] = t.Special
		if t.Content == "" {
			continue
		}
		if t.Normalized {
			a.normal.add(t, normalize(t.Content))
		} else {
			a.raw.add(t, t.Content)
		}
	}
	a.raw.sort()
	a.normal.sort()
	return a
}

// segment is an added token, or text between them.
type segment struct {
	token int32 // -1: text
	text  string
	first bool // text that begins where the whole text does
}

// cut cuts a text into added tokens and normalised text.
func (a *addedTokens) cut(text string, normalize func(string) string) (all []segment) {
	for _, s := range a.raw.cut(text, true) {
		if s.token >= 0 {
			all = append(all, s)
			continue
		}
		all = append(all, a.normal.cut(normalize(s.text), s.first)...)
	}
	return all
}

// tokenSet finds the leftmost of its tokens, of several the longest.
type tokenSet struct {
	tokens []searched
	begins [256]bool // whether a token begins with a byte
}

type searched struct {
	addedToken
	pattern string
}

func (s *tokenSet) add(t addedToken, pattern string) {
	if pattern != "" {
		s.tokens = append(s.tokens, searched{t, pattern})
		s.begins[pattern[0]] = true
	}
}

// sort puts long tokens first.
func (s *tokenSet) sort() {
	slices.SortStableFunc(s.tokens, func(a, b searched) int { return len(b.pattern) - len(a.pattern) })
}

func (s *tokenSet) at(text string) *searched {
	if !s.begins[text[0]] {
		return nil
	}
	for i := range s.tokens {
		if strings.HasPrefix(text, s.tokens[i].pattern) {
			return &s.tokens[i]
		}
	}
	return nil
}

func (s *tokenSet) cut(text string, first bool) (all []segment) {
	if len(s.tokens) == 0 {
		return []segment{{-1, text, first}}
	}
	done := 0
	for i := 0; i < len(text); {
		t := s.at(text[i:])
		if t == nil {
			i++
			continue
		}
		lo, hi := i, i+len(t.pattern)
		i = hi
		if t.SingleWord && (endsInWord(text[:lo]) || beginsWord(text[hi:])) {
			continue
		}
		if t.LStrip {
			lo = max(done, len(strings.TrimRightFunc(text[:lo], unicode.IsSpace)))
		}
		if t.RStrip {
			hi = len(text) - len(strings.TrimLeftFunc(text[hi:], unicode.IsSpace))
		}
		if lo < done { // the white space before it went to the last one
			lo = done
		}
		if lo > done {
			all = append(all, segment{-1, text[done:lo], first && done == 0})
		}
		all = append(all, segment{t.ID, text[lo:max(lo, hi)], false})
		done = max(done, hi)
		i = max(i, done)
	}
	if done < len(text) {
		all = append(all, segment{-1, text[done:], first && done == 0})
	}
	return all
}

func endsInWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

func beginsWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}

// isWord is \w of UTS #18.
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}
