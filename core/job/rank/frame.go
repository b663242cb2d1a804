package rank

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The wire format: after the TLS handshake (secure.go) both sides send frames. A
// frame has a length (4 bytes, big endian, counting what follows), an operation
// (1 byte), the id of the request (8 bytes, repeated in the response), and a body
// of fields: byte strings as uvarint length and bytes, integers as varints.

const (
	maxFrame      = 64 << 20 // after a peer is accepted
	maxHelloFrame = 4 << 10  // before
	frameHead     = 1 + 8
)

type op uint8

// Requests of a client.
const (
	opHello op = iota + 1
	opSet
	opGet
	opAdd
	opWait
	opCompareAndSet
	opDelete
	opGather
	opPoll   // asks for the progress of the wait with this id
	opCancel // cancels the wait with this id
	opBye
	opGatherAmong
	opRegroup
	opPong
	opEnough // wait for no more members
)

// Responses of a server.
const (
	opOK op = iota + 64
	opError
	opRefused
	opProgress
	opCancelled
	opPeerLeft
	opPing   // asks for opPong; has no id, as those below
	opBroken // the group of this epoch has failed, and whether a member is lost
	opWanted // ranks wait to be admitted to the group of this epoch
)

type frame struct {
	op   op
	id   uint64
	body []byte
}

var errFrame = errors.New("malformed frame")

// writeFrame sends head and body in one write.
func writeFrame(w io.Writer, f frame) error {
	if len(f.body) > maxFrame-frameHead {
		return fmt.Errorf("%w: %d bytes, at most %d fit", errFrame, len(f.body), maxFrame-frameHead)
	}
	buf := make([]byte, 0, 4+frameHead+len(f.body))
	buf = binary.BigEndian.AppendUint32(buf, uint32(frameHead+len(f.body)))
	buf = append(buf, byte(f.op))
	buf = binary.BigEndian.AppendUint64(buf, f.id)
	_, err := w.Write(append(buf, f.body...))
	return err
}

// readFrame refuses a frame longer than limit before it allocates anything.
func readFrame(r io.Reader, limit int) (frame, error) {
	var head [4 + frameHead]byte
	if _, err := io.ReadFull(r, head[:4]); err != nil {
		return frame{}, err
	}
	n := int64(binary.BigEndian.Uint32(head[:4]))
	if n < frameHead || n > int64(limit) {
		return frame{}, fmt.Errorf("%w: length %d is outside %d..%d", errFrame, n, frameHead, limit)
	}
	if _, err := io.ReadFull(r, head[4:]); err != nil {
		return frame{}, unexpected(err)
	}
	f := frame{op: op(head[4]), id: binary.BigEndian.Uint64(head[5:]), body: make([]byte, n-frameHead)}
	_, err := io.ReadFull(r, f.body)
	return f, unexpected(err)
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// fields builds a body.
type fields []byte

func (f fields) bytes(b []byte) fields {
	return append(binary.AppendUvarint(f, uint64(len(b))), b...)
}
func (f fields) text(s string) fields   { return f.bytes([]byte(s)) }
func (f fields) number(n int64) fields  { return binary.AppendVarint(f, n) }
func (f fields) flag(b bool) fields     { return f.number(map[bool]int64{true: 1}[b]) }
func (f fields) list(l [][]byte) fields { return eachBytes(f.number(int64(len(l))), l) }

func eachBytes(f fields, l [][]byte) fields {
	for _, b := range l {
		f = f.bytes(b)
	}
	return f
}

func (f fields) numbers(l []int) fields {
	f = f.number(int64(len(l)))
	for _, n := range l {
		f = f.number(int64(n))
	}
	return f
}

func (f fields) peers(l []Peer) fields {
	f = f.number(int64(len(l)))
	for _, p := range l {
		f = f.number(int64(p.Rank)).text(p.Host).text(p.Addr)
	}
	return f
}

// parser reads the fields of a body; after an error all fields are zero. Byte
// strings are copies.
type parser struct {
	rest []byte
	err  error
}

func (p *parser) fail() {
	p.rest, p.err = nil, errFrame
}

func (p *parser) number() int64 {
	n, size := binary.Varint(p.rest)
	if size <= 0 {
		p.fail()
		return 0
	}
	p.rest = p.rest[size:]
	return n
}

func (p *parser) flag() bool { return p.number() != 0 }

// bounded is a number of items, each at least one byte long, and fewer than 2²⁰.
func (p *parser) bounded() int {
	n := p.number()
	if n < 0 || n > min(int64(len(p.rest)), 1<<20) {
		p.fail()
		return 0
	}
	return int(n)
}

// small is an int that fits into 32 bits.
func (p *parser) small() int {
	n := p.number()
	if n < -1<<31 || n >= 1<<31 {
		p.fail()
		return 0
	}
	return int(n)
}

func (p *parser) bytes() []byte {
	n, size := binary.Uvarint(p.rest)
	if size <= 0 || n > uint64(len(p.rest)-size) {
		p.fail()
		return nil
	}
	b := append([]byte{}, p.rest[size:size+int(n)]...)
	p.rest = p.rest[size+int(n):]
	return b
}

func (p *parser) text() string { return string(p.bytes()) }

func (p *parser) list() [][]byte {
	l := make([][]byte, p.bounded())
	for i := range l {
		l[i] = p.bytes()
	}
	return l
}

func (p *parser) numbers() []int {
	l := make([]int, p.bounded())
	for i := range l {
		l[i] = p.small()
	}
	return l
}

func (p *parser) peers() []Peer {
	l := make([]Peer, p.bounded())
	for i := range l {
		l[i] = Peer{Rank: p.small(), Host: p.text(), Addr: p.text()}
	}
	return l
}

// end returns an error if bytes are left over.
func (p *parser) end() error {
	if p.err == nil && len(p.rest) > 0 {
		p.fail()
	}
	return p.err
}
