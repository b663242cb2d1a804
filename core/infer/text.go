package infer

import (
	"strings"
	"unicode/utf8"

	"github.com/trainctl/trainctl/core/base/tokenizer"
)

// stream turns tokens into text as they come. A character may take several tokens, and the
// end of a text may be the beginning of a stop text: such parts wait for the next token.
type stream struct {
	tokenizer tokenizer.Tokenizer
	stops     []string

	tokens  []int32 // from the last ones that were decoded to whole characters
	whole   int     // how many of them were
	waiting string  // decoded, and perhaps the beginning of a stop text
}

// add returns the text that is certain with one more token, and whether a stop text has come,
// which is left out.
func (s *stream) add(token int32) (text string, stopped bool) {
	s.tokens = append(s.tokens, token)
	before, now := s.tokenizer.Decode(s.tokens[:s.whole]), s.tokenizer.Decode(s.tokens)
	if len(now) <= len(before) || strings.HasSuffix(now, string(utf8.RuneError)) && len(s.tokens)-s.whole < utf8.UTFMax {
		return "", false
	}
	s.waiting += strings.TrimPrefix(now, before)
	s.tokens, s.whole = s.tokens[s.whole:], len(s.tokens)-s.whole
	return s.certain()
}

// certain cuts what waits at a stop text, or before the beginning of one.
func (s *stream) certain() (text string, stopped bool) {
	keep := 0
	for _, stop := range s.stops {
		if text, _, found := strings.Cut(s.waiting, stop); found {
			s.waiting = ""
			return text, true
		}
		for n := min(len(stop), len(s.waiting)); n > keep; n-- {
			if strings.HasSuffix(s.waiting, stop[:n]) {
				keep = n
			}
		}
	}
	text, s.waiting = s.waiting[:len(s.waiting)-keep], s.waiting[len(s.waiting)-keep:]
	return text, false
}

// end is the text that still waits.
func (s *stream) end() string {
	before, now := s.tokenizer.Decode(s.tokens[:s.whole]), s.tokenizer.Decode(s.tokens)
	return s.waiting + strings.TrimPrefix(now, before)
}
