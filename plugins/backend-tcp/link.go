package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/base/keepalive"
)

// link is one connection to another rank. Only the goroutine of Do uses it, and
// never blocks on it: a wait is for all links at once (wait.go).
type link struct {
	rank     int
	at       int // what the running algorithm calls the rank; negative: it does not use the link
	way      way
	stream   int // of streams; stream 0 carries calls and aborts, all carry data
	streams  int
	fd       int
	tlsConn  *tlsConn // nil: without TLS
	readable bool     // a read may return data
	writable bool     // a write may accept data
	lost     error    // why nothing can be received any more; io.EOF: the rank closed
	aborted  bool     // an abort message was sent
	watch    keepalive.Watch
	here     net.Addr // both ends, for messages
	there    net.Addr
	paused   bool // nothing can be received now, because there is no place for it
	in       inbound
	out      outbound
	vec      [2][]byte
}

// way says for which transfers between two ranks a link is.
type way byte

const (
	bothWays way = iota
	outgoing     // this rank's sends, see pair.go
	incoming
)

// inbound is the frame that is being received. Its header and call lie in
// head, the payload goes to the collective's destination.
type inbound struct {
	head    [headerSize + callSize]byte
	got     int    // bytes of the frame that are here
	frame   header // once got ≥ headerSize
	checked bool   // kind and length are as expected
	next    int    // index of the next data frame on this link
}

// outbound is the frame that is being sent.
type outbound struct {
	head [headerSize + callSize]byte
	size int // bytes of head in use, 0 between frames
	body []byte
	gone int // bytes of the frame handed to the system
	next int
	call bool // the call has been sent
}

// errAgain means that nothing can be read or written now.
var errAgain = errors.New("nothing to read, or no room to write")

// newLink makes a link of a connection after the handshake. It takes the
// socket from Go's poller, which would wake a thread for every packet.
func newLink(rank, stream, streams int, conn net.Conn) (*link, error) {
	l := &link{rank: rank, at: -1, stream: stream, streams: streams, readable: true, writable: true, here: conn.LocalAddr(), there: conn.RemoteAddr()}
	plain := conn
	if s, ok := conn.(*tlsConn); ok {
		l.tlsConn, plain = s, s.raw
	}
	sc, ok := plain.(syscall.Conn)
	if !ok {
		return nil, errors.New("a connection without a descriptor")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { l.fd, failed = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3) }); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, failed
	}
	if err := plain.Close(); err != nil { // the duplicate keeps the connection
		return nil, errors.Join(err, unix.Close(l.fd))
	}
	if l.tlsConn != nil {
		l.tlsConn.detach(l.fd)
	}
	return l, nil
}

func (l *link) close() { unix.Close(l.fd) }

// cannotSend reports whether nothing can be sent any more, because an abort message was
// sent or a frame was sent in part.
func (l *link) cannotSend() bool { return l.aborted || l.out.size > 0 && l.out.gone > 0 }

// read fills the first bytes of head and body, in this order.
func (l *link) read(head, body []byte) (n int, err error) {
	if l.lost != nil {
		return 0, l.lost
	}
	if l.tlsConn != nil {
		n, err = l.tlsConn.read(head, body)
	} else {
		n, err = l.move(head, body, unix.Read, unix.Readv)
	}
	if err = l.explain(settle(err)); err == nil && n <= 0 {
		err = io.EOF
	}
	if err == errAgain {
		l.readable = false
	} else if err != nil {
		l.lost = err
	}
	return max(n, 0), err
}

// write sends the first bytes of head and body, in this order.
func (l *link) write(head, body []byte) (n int, err error) {
	if l.tlsConn != nil {
		n, err = l.tlsConn.write(head, body)
	} else {
		n, err = l.move(head, body, unix.Write, unix.Writev)
	}
	if err = l.explain(settle(err)); err == errAgain {
		l.writable = false
	}
	return max(n, 0), err
}

// move reads or writes head and body with one system call.
func (l *link) move(head, body []byte, one func(int, []byte) (int, error), both func(int, [][]byte) (int, error)) (int, error) {
	switch {
	case len(body) == 0:
		return one(l.fd, head)
	case len(head) == 0:
		return one(l.fd, body)
	}
	l.vec[0], l.vec[1] = head, body
	return both(l.fd, l.vec[:])
}

// explain adds both ends of the link if the other host does not respond.
func (l *link) explain(err error) error {
	if !keepalive.Silent(err) {
		return err
	}
	return fmt.Errorf("%s: %w", keepalive.Silence(l.here, l.there), err)
}

// cut reports whether the other host has acknowledged nothing for too long.
func (l *link) cut(now time.Time) bool {
	return l.lost == nil && l.watch.Unheard(l.fd, now) >= keepalive.Limit
}

// flushed reports whether everything written has been handed to the system.
func (l *link) flushed() (bool, error) {
	if l.tlsConn == nil {
		return true, nil
	}
	err := settle(l.tlsConn.flush())
	if err == errAgain {
		l.writable = false
		return false, nil
	}
	return err == nil, err
}

// drain discards received bytes and reports whether there were any.
func (l *link) drain(sink []byte) bool {
	n, err := unix.Read(l.fd, sink)
	if err = settle(err); err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil && err != errAgain {
		l.lost = err
	}
	return err == nil
}

func settle(err error) error {
	switch {
	case err == nil:
		return nil
	case err == unix.EAGAIN || err == unix.EINTR || errors.Is(err, os.ErrDeadlineExceeded):
		return errAgain
	}
	return err
}

// rest returns the part of a frame that remains: head and body without their
// first done bytes.
func rest(head, body []byte, done int) (h, b []byte) {
	if done < len(head) {
		return head[done:], body
	}
	return nil, body[done-len(head):]
}

// Connected ranks exchange frames: a header of fixed size and exactly as many bytes
// as the receiver expects. A frame with any other length is refused before it is
// read.
//
//	0  kind    1 byte
//	1  zero    3 bytes
//	4  length  4 bytes, of what follows the header

const headerSize = 8

type kind byte

const (
	kindCall  kind = 1 + iota // a call, then its inline contribution
	kindData                  // a segment of a large buffer, empty where a chunk has fewer segments than others
	kindAbort                 // JSON, see abort.go: the sender failed
)

const (
	maxInline  = 64 << 10 // bytes of a rank's contribution in a call frame
	maxParcel  = 2 << 20  // bytes of the contributions of a host's ranks
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
		least, most = callSize, callSize+maxParcel
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
