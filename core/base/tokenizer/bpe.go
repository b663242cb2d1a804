package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// bpe is the model: byte pair encoding (Sennrich, Haddow and Birch, 2016). The characters of
// a piece are joined, the pair that was learned first before others, from left to right.
type bpe struct {
	vocab        map[string]int32
	merges       map[[2]int32]merge
	unknown      int32 // token of characters that have none; -1: they are left out
	fuseUnknown  bool
	byteFallback bool   // a character without a token is its bytes, <0x00> to <0xFF>
	whole        bool   // a piece that is a token is that token (ignore_merges)
	prefix       string // of every character but the first of a piece
	suffix       string // of the last character of a piece

	known   map[string][]int32 // tokens of pieces seen before
	symbols []symbol           // of the piece at hand
	queue   mergeQueue
}

// merge says that a pair becomes a token; merges of low rank come first.
type merge struct{ rank, token int32 }

func parseBPE(raw json.RawMessage) (*bpe, error) {
	var f struct {
		Type         string
		Vocab        map[string]int32
		Merges       []pair
		Dropout      *float64
		UnkToken     *string `json:"unk_token"`
		Prefix       *string `json:"continuing_subword_prefix"`
		Suffix       *string `json:"end_of_word_suffix"`
		FuseUnk      bool    `json:"fuse_unk"`
		ByteFallback bool    `json:"byte_fallback"`
		IgnoreMerges bool    `json:"ignore_merges"`
	}
	var head struct{ Type string }
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, err
	}
	if head.Type != "BPE" && head.Type != "" {
		return nil, fmt.Errorf("the type %q is not supported, only BPE", head.Type)
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, err
	}
	if len(f.Vocab) == 0 {
		return nil, errors.New("the vocabulary is empty")
	}
	if f.Dropout != nil && *f.Dropout != 0 {
		return nil, fmt.Errorf("dropout = %v is not supported, because it makes tokens random", *f.Dropout)
	}
	m := &bpe{
		vocab: f.Vocab, merges: make(map[[2]int32]merge, len(f.Merges)), unknown: -1, known: map[string][]int32{},
		fuseUnknown: f.FuseUnk, byteFallback: f.ByteFallback, whole: f.IgnoreMerges, prefix: deref(f.Prefix), suffix: deref(f.Suffix),
	}
	if f.UnkToken != nil {
		id, ok := m.vocab[*f.UnkToken]
		if !ok {
			return nil, fmt.Errorf("unk_token %q is not in the vocabulary", *f.UnkToken)
		}
		m.unknown = id
	}
	for i, p := range f.Merges {
		if err := m.addMerge(i, p); err != nil {
			return nil, fmt.Errorf("merge %d: %w", i, err)
		}
	}
	return m, nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// pair is the two tokens of a merge: ["a", "b"], or "a b" in older files.
type pair [2]string

func (p *pair) UnmarshalJSON(b []byte) error {
	var list []string
	if len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		list = strings.Split(s, " ")
	} else if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	if len(list) != 2 {
		return fmt.Errorf("the merge %s is not a pair", b)
	}
	*p = pair(list)
	return nil
}

func (m *bpe) addMerge(rank int, p pair) error {
	joined := p[0] + strings.TrimPrefix(p[1], m.prefix)
	var ids [3]int32
	for i, name := range []string{p[0], p[1], joined} {
		id, ok := m.vocab[name]
		if !ok {
			return fmt.Errorf("%q is not in the vocabulary", name)
		}
		ids[i] = id
	}
	key := [2]int32{ids[0], ids[1]}
	m.merges[key] = merge{int32(rank), ids[2]}
	return nil
}

// symbol is a part of a piece, linked with its neighbours; -1: none.
type symbol struct {
	token      int32
	prev, next int32
	gone       bool // joined to the one before
}

const (
	maxKnown = 1 << 16 // pieces
	maxPiece = 256     // bytes of a known piece
)

// append appends the tokens of a piece.
func (m *bpe) append(tokens []int32, piece string) []int32 {
	if known, ok := m.known[piece]; ok {
		return append(tokens, known...)
	}
	from := len(tokens)
	if id, ok := m.vocab[piece]; ok && m.whole {
		tokens = append(tokens, id)
	} else {
		tokens = m.join(tokens, piece)
	}
	if len(piece) <= maxPiece {
		if len(m.known) >= maxKnown {
			clear(m.known)
		}
		m.known[strings.Clone(piece)] = append([]int32(nil), tokens[from:]...)
	}
	return tokens
}

// join encodes a piece.
func (m *bpe) join(tokens []int32, piece string) []int32 {
	m.spell(piece)
	m.queue = m.queue[:0]
	for i := range m.symbols {
		m.offer(int32(i))
	}
	for len(m.queue) > 0 {
		best := m.queue.pop()
		s := &m.symbols[best.at]
		if s.gone || s.next < 0 {
			continue
		}
		if found, ok := m.merges[[2]int32{s.token, m.symbols[s.next].token}]; !ok || found.token != best.token {
			continue // one of the two was joined otherwise
		}
		right := &m.symbols[s.next]
		right.gone = true
		s.token, s.next = best.token, right.next
		if s.next >= 0 {
			m.symbols[s.next].prev = best.at
		}
		if s.prev >= 0 {
			m.offer(s.prev)
		}
		m.offer(best.at)
	}
	for i := range m.symbols {
		if !m.symbols[i].gone {
			tokens = append(tokens, m.symbols[i].token)
		}
	}
	return tokens
}

// offer queues the merge of a symbol and the next, if there is one.
func (m *bpe) offer(at int32) {
	s := &m.symbols[at]
	if s.next < 0 {
		return
	}
	if found, ok := m.merges[[2]int32{s.token, m.symbols[s.next].token}]; ok {
		m.queue.push(candidate{key: uint64(found.rank)<<32 | uint64(at), at: at, token: found.token})
	}
}

// spell makes the symbols of a piece: its characters' tokens.
func (m *bpe) spell(piece string) {
	m.symbols = m.symbols[:0]
	unknown := false // the characters before had no token, and theirs is not added yet
	for i, n := 0, 0; i < len(piece); i += n {
		_, n = utf8.DecodeRuneInString(piece[i:])
		name := piece[i : i+n]
		if i > 0 && m.prefix != "" {
			name = m.prefix + name
		}
		if i+n == len(piece) && m.suffix != "" {
			name += m.suffix
		}
		id, ok := m.vocab[name]
		switch {
		case ok:
			if unknown {
				m.add(m.unknown)
				unknown = false
			}
			m.add(id)
		case m.byteFallback && m.addBytes(name):
		case m.unknown >= 0:
			if unknown && !m.fuseUnknown {
				m.add(m.unknown)
			}
			unknown = true
		}
	}
	if unknown {
		m.add(m.unknown)
	}
}

func (m *bpe) add(token int32) {
	at := int32(len(m.symbols))
	if at > 0 {
		m.symbols[at-1].next = at
	}
	m.symbols = append(m.symbols, symbol{token: token, prev: at - 1, next: -1})
}

// addBytes adds the tokens of a character's bytes, if the vocabulary has all of them.
func (m *bpe) addBytes(name string) bool {
	var ids [utf8.UTFMax + 64]int32
	if len(name) > len(ids) {
		return false
	}
	for i := range len(name) {
		id, ok := m.vocab[byteName(name[i])]
		if !ok {
			return false
		}
		ids[i] = id
	}
	for _, id := range ids[:len(name)] {
		m.add(id)
	}
	return true
}

func byteName(b byte) string { return fmt.Sprintf("<0x%02X>", b) }

// candidate is a merge that may be done. Its key orders candidates: by rank, then by place.
type candidate struct {
	key   uint64
	at    int32
	token int32
}

// mergeQueue is a binary heap, the smallest key first.
type mergeQueue []candidate

func (q *mergeQueue) push(c candidate) {
	h := append(*q, c)
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if h[up].key <= h[i].key {
			break
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
	*q = h
}

func (q *mergeQueue) pop() candidate {
	h := *q
	top, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	for i := 0; ; {
		least := i
		for k := 2*i + 1; k <= 2*i+2 && k < last; k++ {
			if h[k].key < h[least].key {
				least = k
			}
		}
		if least == i {
			break
		}
		h[least], h[i] = h[i], h[least]
		i = least
	}
	*q = h
	return top
}
