package tokenizer

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// decoder changes the names of tokens on the way to their text.
type decoder func(names []string) []string

func decoderOf(p *part) (decoder, error) {
	switch p.Type {
	case "ByteLevel":
		return decodeBytes, nil
	case "ByteFallback":
		return decodeFallback, nil
	case "Fuse":
		return func(names []string) []string { return []string{strings.Join(names, "")} }, nil
	case "Metaspace":
		return metaspaceDecoder(p)
	case "Replace":
		replace, err := replaceOf(p)
		return each(replace), err
	case "Strip":
		return stripDecoder(p)
	case "BPEDecoder":
		return suffixDecoder(p)
	case "WordPiece":
		return prefixDecoder(p)
	}
	return nil, p.unknown()
}

// each applies a function to every name.
func each(f func(string) string) decoder {
	return func(names []string) []string {
		for i, n := range names {
			names[i] = f(n)
		}
		return names
	}
}

// decodeBytes joins the bytes of all names, and only then makes characters of them.
func decodeBytes(names []string) []string {
	var b []byte
	for _, n := range names {
		b = append(b, bytesOf(n)...)
	}
	return []string{lossy(b)}
}

// decodeFallback makes characters of the names <0x00> to <0xFF> that follow each other. If
// they are none, each is U+FFFD.
func decodeFallback(names []string) (out []string) {
	var pending []byte
	flush := func() {
		switch {
		case len(pending) == 0:
		case utf8.Valid(pending):
			out = append(out, string(pending))
		default:
			out = append(out, strings.Repeat("\uFFFD", len(pending)))
		}
		pending = pending[:0]
	}
	for _, n := range names {
		if b, ok := fallbackByte(n); ok {
			pending = append(pending, b)
			continue
		}
		flush()
		out = append(out, n)
	}
	flush()
	return out
}

func fallbackByte(name string) (byte, bool) {
	if len(name) != len("<0x00>") || !strings.HasPrefix(name, "<0x") || name[5] != '>' {
		return 0, false
	}
	v, err := strconv.ParseUint(name[3:5], 16, 8)
	return byte(v), err == nil
}

// metaspaceDecoder makes spaces of the replacement again, without the one that was put before
// the text.
func metaspaceDecoder(p *part) (decoder, error) {
	m, err := metaspaceOf(p)
	return func(names []string) []string {
		for i, n := range names {
			to := " "
			if i == 0 && m.Scheme != schemeNever {
				to = ""
			}
			names[i] = strings.ReplaceAll(n, m.Replacement, to)
		}
		return names
	}, err
}

// stripDecoder removes up to Start and Stop times a character from the ends of each name.
func stripDecoder(p *part) (decoder, error) {
	var a struct {
		Content     string
		Start, Stop int
	}
	err := p.read(&a)
	return each(func(n string) string {
		for i := 0; i < a.Start && strings.HasPrefix(n, a.Content) && a.Content != ""; i++ {
			n = n[len(a.Content):]
		}
		for i := 0; i < a.Stop && strings.HasSuffix(n, a.Content) && a.Content != ""; i++ {
			n = n[:len(n)-len(a.Content)]
		}
		return n
	}), err
}

// suffixDecoder makes spaces of the suffix of words, but for the last.
func suffixDecoder(p *part) (decoder, error) {
	var a struct{ Suffix string }
	err := p.read(&a)
	return func(names []string) []string {
		for i, n := range names {
			to := " "
			if i == len(names)-1 {
				to = ""
			}
			if a.Suffix != "" {
				names[i] = strings.ReplaceAll(n, a.Suffix, to)
			}
		}
		return names
	}, err
}

// joins are what English puts together, in the order in which it is looked for.
var joins = strings.NewReplacer(" .", ".", " ?", "?", " !", "!", " ,", ",", " ' ", "'", " n't", "n't", " 'm", "'m", " do not", " don't", " 's", "'s", " 've", "'ve", " 're", "'re")

// prefixDecoder puts a space before each token but the first and those that continue a word.
func prefixDecoder(p *part) (decoder, error) {
	a := struct {
		Prefix  string
		Cleanup bool
	}{"##", true}
	err := p.read(&a)
	return func(names []string) []string {
		for i, n := range names {
			if rest, continues := strings.CutPrefix(n, a.Prefix); i > 0 && continues {
				n = rest
			} else if i > 0 {
				n = " " + n
			}
			if a.Cleanup {
				n = joins.Replace(n)
			}
			names[i] = n
		}
		return names
	}, err
}
