package tokenizer

import "strings"

// GPT-2's alphabet of bytes: each byte is a printable character, so that a vocabulary is text.
// Printable bytes of Latin-1 are themselves, the others U+0100 and on in their order.
var (
	charOf = func() (c [256]rune) {
		next := rune(0x100)
		for b := range c {
			if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
				c[b] = rune(b)
				continue
			}
			c[b] = next
			next++
		}
		return c
	}()
	byteOf = func() map[rune]byte {
		m := map[rune]byte{}
		for b, c := range charOf {
			m[c] = byte(b)
		}
		return m
	}()
)

// toChars writes the bytes of a text in the alphabet.
func toChars(text string) string {
	var b strings.Builder
	b.Grow(len(text) + len(text)/4)
	for i := range len(text) {
		b.WriteRune(charOf[text[i]])
	}
	return b.String()
}

// bytesOf are the bytes that a token's name stands for; its own, if a character of it is not
// in the alphabet, as in some added tokens.
func bytesOf(name string) []byte {
	var b []byte
	for _, c := range name {
		v, ok := byteOf[c]
		if !ok {
			return []byte(name)
		}
		b = append(b, v)
	}
	return b
}
