package jpeg

import "encoding/binary"

// look is how many bits are looked up at once.
const look = 10

// huffman is a table of codes (C.2). An entry for the next bits says, from the
// low end: 6 bits of length, of the code or with its value; 1 bit, whether the
// value is in it; then the symbol in bits 8 to 15, and the value above. 0 is for
// codes longer than look.
type huffman struct {
	entries [1 << look]int32
	last    [17]int32 // by length: the last code, -1 for none
	first   [17]int32 // by length: what is added to a code for its symbol
	symbols [256]byte
}

const valued = 1 << 6

// huffmans reads B.2.4.2.
func (d *Decoder) huffmans(b []byte) bool {
	for len(b) > 0 {
		if len(b) < 17 || b[0]>>4 > 1 || b[0]&15 > 1 || d.used == len(d.spare) {
			return false
		}
		total := 0
		for _, n := range b[1:17] {
			total += int(n)
		}
		if total == 0 || total > 256 || len(b) < 17+total {
			return false
		}
		h := &d.spare[d.used]
		d.used++
		if !h.build(b[1:17], b[17:17+total]) {
			return false
		}
		d.tables[b[0]>>4][b[0]&15] = h
		b = b[17+total:]
	}
	return true
}

// build makes the table from the numbers of codes by length, and their symbols.
func (h *huffman) build(counts, symbols []byte) bool {
	clear(h.entries[:])
	copy(h.symbols[:], symbols)
	code, at := int32(0), int32(0)
	for length := 1; length <= 16; length++ {
		n := int32(counts[length-1])
		h.first[length], h.last[length] = at-code, code+n-1
		if n == 0 {
			h.last[length] = -1
		}
		if code+n > 1<<length {
			return false
		}
		for range n {
			if length <= look {
				h.enter(code, length, symbols[at])
			}
			code, at = code+1, at+1
		}
		code <<= 1
	}
	return true
}

// enter fills the entries that begin with a code, with the value where it is short enough.
func (h *huffman) enter(code int32, length int, symbol byte) {
	spare := look - length
	size := int(symbol & 15)
	for rest := range int32(1) << spare {
		e := int32(symbol)<<8 | int32(length)
		if size > 0 && size <= spare {
			e = extend(rest>>(spare-size), size)<<16 | int32(symbol)<<8 | valued | int32(length+size)
		}
		h.entries[code<<spare|rest] = e
	}
}

// extend is the signed value of a magnitude of so many bits (F.2.2.1).
func extend(v int32, size int) int32 {
	if v < 1<<(size-1) {
		v += -1<<size + 1
	}
	return v
}

// bits reads entropy-coded bytes, the next bit uppermost.
type bits struct {
	file []byte
	acc  uint64
	n    int // valid in acc
	past int // of them, made up behind the end
}

// fill makes at least 57 bits valid. Behind a marker come zeros.
func (r *bits) fill() {
	if len(r.file) >= 8 {
		next := binary.BigEndian.Uint64(r.file)
		inverse := ^next
		if (inverse-0x0101010101010101)&next&0x8080808080808080 == 0 { // none is 0xff
			take := (64 - r.n) / 8
			r.acc |= next >> r.n
			r.n += 8 * take
			r.file = r.file[take:]
			if r.n < 64 {
				r.acc = r.acc >> (64 - r.n) << (64 - r.n)
			}
			return
		}
	}
	for ; r.n <= 56; r.n += 8 {
		switch {
		case len(r.file) > 0 && r.file[0] != 0xff:
			r.acc |= uint64(r.file[0]) << (56 - r.n)
			r.file = r.file[1:]
		case len(r.file) > 1 && r.file[1] == 0: // B.1.1.5
			r.acc |= 0xff << (56 - r.n)
			r.file = r.file[2:]
		default:
			r.past += 8
		}
	}
}

// take takes up to 16 bits that are valid.
func (r *bits) take(n int) int32 {
	v := int32(r.acc >> (64 - n))
	r.acc <<= n
	r.n -= n
	return v
}

// symbol decodes a code; at least 16 bits are valid. It is negative for none.
func (r *bits) symbol(h *huffman) int32 {
	if e := h.entries[r.acc>>(64-look)]; e != 0 {
		length := int(e & 63)
		if e&valued != 0 {
			length -= int(e >> 8 & 15)
		}
		r.take(length)
		return e >> 8 & 255
	}
	for length := look + 1; length <= 16; length++ {
		if code := int32(r.acc >> (64 - length)); code <= h.last[length] {
			r.take(length)
			return int32(h.symbols[code+h.first[length]])
		}
	}
	return -1
}

// restart goes to the next byte and takes a marker. It reports false where
// something else is, or bits were made up.
func (r *bits) restart(marker byte) bool {
	unread := r.n - r.past
	if unread < 0 {
		return false
	}
	// Whole bytes that were filled in before the marker have not been coded.
	if unread >= 8 || len(r.file) < 2 || r.file[0] != 0xff || r.file[1] != marker {
		return false
	}
	*r = bits{file: r.file[2:]}
	return true
}
