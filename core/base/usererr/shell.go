package usererr

import (
	"fmt"
	"strings"
	"unicode"
)

// Shell quotes an argument for bash, zsh and ksh if needed. Hints use it for file
// names, so that commands can be copied.
func Shell(arg string) string {
	plain := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("_-./:,@%+=", r)
	}
	unsafe := func(r rune) bool { return !plain(r) }
	switch {
	case strings.ContainsFunc(arg, unicode.IsControl):
		return "$'" + escape(arg) + "'"
	case arg == "" || strings.ContainsFunc(arg, unsafe):
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return arg
}

// escape is for $'…', which keeps control characters off the terminal.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
