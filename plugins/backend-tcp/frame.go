package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
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
	kindData                  // a segment of a large buffer
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

var errFrame = errors.New("it sent something that is no frame of this protocol")

// parseHeader checks the bounds that hold for every receiver.
func parseHeader(raw []byte) (header, error) {
	n := binary.LittleEndian.Uint32(raw[4:])
	least, most := uint32(0), uint32(0)
	switch kind(raw[0]) {
	case kindCall:
		least, most = callSize, callSize+maxInline
	case kindData:
		least, most = 1, maxSegment
	case kindAbort:
		least, most = 2, maxAbort
	}
	if n < least || n > most || most == 0 || raw[1]|raw[2]|raw[3] != 0 {
		return header{}, errFrame
	}
	return header{kind(raw[0]), int(n)}, nil
}

// readHeader takes the next header from p and turns an abort into its error.
func (b *Backend) readHeader(p *peer, want kind) (header, error) {
	if err := b.readFull(p, p.in[:headerSize]); err != nil {
		return header{}, err
	}
	h, err := parseHeader(p.in[:headerSize])
	switch {
	case err != nil:
		return h, b.peerError(p.rank, err.Error())
	case h.kind == kindAbort:
		return h, b.readAbort(p, h.length)
	case h.kind != want:
		return h, b.peerError(p.rank, fmt.Sprintf("it sent frame kind %d where %d was due", h.kind, want))
	}
	return h, nil
}

// readData fills buf with p's next segment.
func (b *Backend) readData(p *peer, buf []byte) error {
	h, err := b.readHeader(p, kindData)
	if err != nil {
		return err
	}
	if h.length != len(buf) {
		return b.peerError(p.rank, fmt.Sprintf("it sent a segment of %d bytes where %d were due", h.length, len(buf)))
	}
	return b.readFull(p, buf)
}

// slice is how long a wait goes on without looking whether somebody died,
// gave up, or called Close.
const slice = 100 * time.Millisecond

// readFull fills buf from p, looking around while nothing comes.
func (b *Backend) readFull(p *peer, buf []byte) error {
	for len(buf) > 0 {
		p.conn.SetReadDeadline(time.Now().Add(slice))
		n, err := p.conn.Read(buf)
		buf = buf[n:]
		if err == nil || len(buf) == 0 {
			continue
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return b.broken(p, err)
		}
		if err := b.overdue(p.rank); err != nil {
			return err
		}
		if err := b.lookAround(p); err != nil {
			return err
		}
	}
	return nil
}

// copyBelow is the size up to which header and payload are joined into one
// write: copying is cheaper than a second packet. Socket buffers hold this
// much, so such a write does not wait for the peer.
const copyBelow = 8 << 10

// write sends one frame whose payload is head and body.
func (b *Backend) write(p *peer, k kind, head, body []byte) error {
	if p.out == nil {
		p.out = make([]byte, headerSize, headerSize+callSize+copyBelow)
	}
	out := append(p.out[:headerSize], head...)
	header{k, len(head) + len(body)}.encode(out)
	b.sent.headers.Add(int64(len(out)))
	b.sent.payload.Add(int64(len(body)))
	if len(body) <= copyBelow {
		out, body = append(out, body...), nil
	}
	if err := b.writeFull(p, out); err != nil {
		return err
	}
	if err := b.writeFull(p, body); err != nil {
		return err
	}
	p.torn = false
	return nil
}

func (b *Backend) writeFull(p *peer, buf []byte) error {
	for len(buf) > 0 {
		p.conn.SetWriteDeadline(time.Now().Add(slice))
		n, err := p.conn.Write(buf)
		p.torn = p.torn || n > 0
		buf = buf[n:]
		if err == nil {
			continue
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return b.broken(p, err)
		}
		if err := b.overdue(p.rank); err != nil {
			return err
		}
	}
	return nil
}

// broken says what a failed connection means.
func (b *Backend) broken(p *peer, err error) error {
	switch {
	case b.closing.Load():
		return errClosed
	case errors.Is(err, io.EOF):
		return b.peerError(p.rank, "it closed the connection")
	}
	return b.peerError(p.rank, err.Error())
}
