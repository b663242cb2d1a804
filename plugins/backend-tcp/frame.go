package tcp

import (
	"encoding/binary"
	"errors"
)

// Everything between joined ranks travels in frames: a header of fixed size
// and exactly as many bytes as the receiver expects. A frame that announces
// anything else is refused before it is read.
//
//	0  kind    1 byte
//	1  zero    3 bytes
//	4  length  4 bytes, of what follows the header

const headerSize = 8

type kind byte

const (
	kindCall  kind = 1 + iota // a call, then its inline contribution
	kindData                  // a segment of a large buffer, empty where a chunk has fewer segments than others
	kindAbort                 // JSON, see abort.go: the sender gave up
)

const (
	maxInline  = 64 << 10 // bytes of contribution in a call frame
	maxSegment = 64 << 20
	maxAbort   = 4 << 10
)

type header struct {
	kind   kind
	length int
}

func (h header) encode(to []byte) {
	clear(to[:headerSize])
	to[0] = byte(h.kind)
	binary.LittleEndian.PutUint32(to[4:], uint32(h.length))
}

var errFrame = errors.New("it sent something that is not a frame of this protocol")

// parseHeader checks the bounds that hold for every receiver.
func parseHeader(raw []byte) (header, error) {
	n := binary.LittleEndian.Uint32(raw[4:])
	least, most := uint32(0), uint32(0)
	switch kind(raw[0]) {
	case kindCall:
		least, most = callSize, callSize+maxInline
	case kindData:
		least, most = 0, maxSegment
	case kindAbort:
		least, most = 2, maxAbort
	}
	if n < least || n > most || most == 0 || raw[1]|raw[2]|raw[3] != 0 {
		return header{}, errFrame
	}
	return header{kind(raw[0]), int(n)}, nil
}
