package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// unescape resolves the escapes of a basic string.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	simple := map[byte]string{'b': "\b", 't': "\t", 'n': "\n", 'f': "\f", 'r': "\r", 'e': "\x1b", '"': `"`, '\\': `\`}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if n := digits[s[i]]; n > 0 && i+n < len(s) {
			r, err := strconv.ParseUint(s[i+1:i+1+n], 16, 32)
			if err == nil {
				b.WriteString(string(rune(r)))
			}
			i += n
			continue
		}
		b.WriteString(simple[s[i]])
	}
	return b.String()
}

// join appends a key to a path, quoted if TOML requires it.
func join(path, key string) string {
	if !bare(key) {
		key = quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func element(path string, n int) string { return fmt.Sprintf("%s[%d]", path, n) }

// parent removes the last key or index from a path.
func parent(path string) string {
	inside := false
	for i := len(path) - 1; i >= 0; i-- {
		switch c := path[i]; {
		case c == '"' && !escaped(path, i):
			inside = !inside
		case !inside && (c == '.' || c == '['):
			return path[:i]
		}
	}
	return ""
}

// escaped reports whether the byte at i follows an odd number of backslashes.
func escaped(s string, i int) bool {
	n := 0
	for n < i && s[i-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

func bare(key string) bool {
	for _, r := range key {
		if r >= utf8.RuneSelf || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", r) {
			return false
		}
	}
	return key != ""
}
