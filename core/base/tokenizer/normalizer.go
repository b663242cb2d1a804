package tokenizer

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// normalizer changes a text before it is cut into pieces.
type normalizer func(text string) string

func normalizerOf(p *part) (normalizer, error) {
	switch p.Type {
	case "NFC":
		return norm.NFC.String, nil
	case "NFD":
		return norm.NFD.String, nil
	case "NFKC":
		return norm.NFKC.String, nil
	case "NFKD":
		return norm.NFKD.String, nil
	case "Lowercase":
		return lowercase, nil
	case "StripAccents":
		return stripAccents, nil
	case "Prepend":
		return prependOf(p)
	case "Strip":
		return stripOf(p)
	case "Replace":
		return replaceOf(p)
	case "ByteLevel":
		return toChars, nil
	case "BertNormalizer":
		return bertNormalizerOf(p)
	case "Nmt":
		return nmt, nil
	}
	return nil, p.unknown()
}

// lowercase maps characters by themselves, İ to two.
func lowercase(text string) string {
	return strings.ReplaceAll(strings.Map(func(r rune) rune {
		if r == 'İ' {
			return r
		}
		return unicode.ToLower(r)
	}, text), "İ", "i̇")
}

func stripAccents(text string) string { return without(unicode.M, text) }

// without removes the characters of a category.
func without(category *unicode.RangeTable, text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(category, r) {
			return -1
		}
		return r
	}, text)
}

func prependOf(p *part) (normalizer, error) {
	var a struct{ Prepend string }
	err := p.read(&a)
	return func(text string) string {
		if text == "" {
			return ""
		}
		return a.Prepend + text
	}, err
}

func stripOf(p *part) (normalizer, error) {
	var a struct {
		Left  bool `json:"strip_left"`
		Right bool `json:"strip_right"`
	}
	err := p.read(&a)
	return func(text string) string {
		if a.Left {
			text = strings.TrimLeftFunc(text, unicode.IsSpace)
		}
		if a.Right {
			text = strings.TrimRightFunc(text, unicode.IsSpace)
		}
		return text
	}, err
}

// replaceOf replaces what a pattern finds by a text, which is taken as it is.
func replaceOf(p *part) (normalizer, error) {
	var a struct {
		Pattern pattern
		Content string
	}
	if err := p.read(&a); err != nil {
		return nil, err
	}
	find, err := a.Pattern.finder()
	return func(text string) string {
		var b strings.Builder
		find(text, func(lo, hi int, match bool) {
			if match {
				b.WriteString(a.Content)
			} else {
				b.WriteString(text[lo:hi])
			}
		})
		return b.String()
	}, err
}

// bertNormalizerOf is BERT's: control characters removed, white space as spaces, Chinese characters between spaces,
// and, where asked for, neither accents nor capitals.
func bertNormalizerOf(p *part) (normalizer, error) {
	var a struct {
		Clean   bool  `json:"clean_text"`
		Chinese bool  `json:"handle_chinese_chars"`
		Strip   *bool `json:"strip_accents"` // nil: as Lower
		Lower   bool  `json:"lowercase"`
	}
	err := p.read(&a)
	strip := a.Strip == nil && a.Lower || a.Strip != nil && *a.Strip
	return func(text string) string {
		if a.Clean {
			text = strings.Map(cleaned, text)
		}
		if a.Chinese {
			text = apartChinese(text)
		}
		if strip {
			text = without(unicode.Mn, norm.NFD.String(text))
		}
		if a.Lower {
			text = lowercase(text)
		}
		return text
	}, err
}

// cleaned is a space for white space, and -1 for characters that print nothing.
func cleaned(r rune) rune {
	switch {
	case r == '\t', r == '\n', r == '\r':
		return ' '
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co), r == unicode.ReplacementChar:
		return -1
	case unicode.IsSpace(r):
		return ' '
	}
	return r
}

// chinese are the blocks of CJK ideographs that BERT knows.
var chinese = [][2]rune{{0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xf900, 0xfaff}, {0x20000, 0x2a6df}, {0x2a700, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}}

func apartChinese(text string) string {
	var b strings.Builder
	for _, r := range text {
		if slices.ContainsFunc(chinese, func(block [2]rune) bool { return block[0] <= r && r <= block[1] }) {
			b.WriteString(" " + string(r) + " ")
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// nmt is SentencePiece's for translation: most control characters removed, and spaces for white space and what prints nothing.
func nmt(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, 0x200b <= r && r <= 0x200f,
			r == 0x2028, r == 0x2029, r == 0x2581, r == 0xfeff, r == unicode.ReplacementChar:
			return ' '
		case 0 < r && r < ' ', r == 0x7f, r == 0x8f, r == 0x9f:
			return -1
		}
		return r
	}, text)
}
