package tokenizer

import (
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

func stripAccents(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.M, r) {
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
