package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// The regular expressions of the common models, written out: a corpus is cut a hundred times
// as fast as by backtracking. Each function returns the end of the match at the beginning of
// a text that is not empty; they match everywhere.
const (
	gpt2Pattern   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Pattern  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

var scanners = map[string]func(string) int{
	gpt2Pattern:   gpt2Next,
	llama3Pattern: func(s string) int { return llama3Next(s, 3) },
	qwen2Pattern:  func(s string) int { return llama3Next(s, 1) },
}

// scanner finds matches that follow each other without text in between.
func scanner(next func(string) int) finder {
	return func(text string, found func(lo, hi int, match bool)) {
		for at := 0; at < len(text); {
			n := next(text[at:])
			found(at, at+n, true)
			at += n
		}
	}
}

// run is the length of the beginning of a text whose characters are of a kind, up to a
// number of characters.
func run(s string, limit int, is func(rune) bool) int {
	for i, r := range s {
		if limit == 0 || !is(r) {
			return i
		}
		limit--
	}
	return len(s)
}

const unlimited = -1

func isOther(r rune) bool { return !unicode.IsSpace(r) && !unicode.IsLetter(r) && !unicode.IsNumber(r) }

func isBreak(r rune) bool { return r == '\r' || r == '\n' }

// contraction is the length of an English one, such as 're; 0 without. fold takes capital
// letters, too, and ſ, which folds to s.
func contraction(s string, fold bool) int {
	if s[0] != '\'' {
		return 0
	}
	lower := func(i int) (byte, int) {
		if i >= len(s) {
			return 0, 1
		}
		c := s[i]
		if fold && c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if r, n := utf8.DecodeRuneInString(s[i:]); fold && r == 'ſ' {
			return 's', n
		}
		return c, 1
	}
	a, n := lower(1)
	switch a {
	case 's', 't', 'm', 'd':
		return 1 + n
	}
	b, _ := lower(2)
	if a == 'r' && b == 'e' || a == 'v' && b == 'e' || a == 'l' && b == 'l' {
		return 3
	}
	return 0
}

// spaces is \s+(?!\S)|\s+: white space up to the end of the text, or all of it but the last
// character, which goes with the word behind it.
func spaces(s string) int {
	n := run(s, unlimited, unicode.IsSpace)
	if n == len(s) {
		return n
	}
	if _, last := utf8.DecodeLastRuneInString(s[:n]); n > last {
		return n - last
	}
	return n
}

func gpt2Next(s string) int {
	if n := contraction(s, false); n > 0 {
		return n
	}
	at := 0
	if s[0] == ' ' {
		at = 1
	}
	for _, is := range []func(rune) bool{unicode.IsLetter, unicode.IsNumber, isOther} {
		if n := run(s[at:], unlimited, is); n > 0 {
			return at + n
		}
	}
	return spaces(s)
}

func llama3Next(s string, digits int) int {
	if n := contraction(s, true); n > 0 {
		return n
	}
	r, n := utf8.DecodeRuneInString(s)
	switch {
	case unicode.IsLetter(r):
		return run(s, unlimited, unicode.IsLetter)
	case unicode.IsNumber(r):
		return run(s, digits, unicode.IsNumber)
	case !isBreak(r):
		if m := run(s[n:], unlimited, unicode.IsLetter); m > 0 {
			return n + m
		}
	}
	at := 0
	if r == ' ' {
		at = 1
	}
	if m := run(s[at:], unlimited, isOther); m > 0 {
		at += m
		return at + run(s[at:], unlimited, isBreak)
	}
	blank := s[:run(s, unlimited, unicode.IsSpace)]
	for i := len(blank); i > 0; i-- {
		if c := blank[i-1]; c == '\r' || c == '\n' {
			return i
		}
	}
	return spaces(s)
}
