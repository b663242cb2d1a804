package tcp

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/trainctl/trainctl/plugins/internal/instance"
)

// algorithm exchanges the payload of a running collective. It defines
// the bytes of each frame to and from a peer; the i-th frame that one side sends is the
// i-th that the other receives. It has no goroutines and does no input or output: drive
// asks it for frames as sockets become ready, and reports what was sent and received.
//
// Peers are the leaders of the other hosts, by the number of the host, unless the algorithm says
// otherwise: see link.at.
type algorithm interface {
	// frames returns how many frames are sent to a peer and received from it.
	frames(peer int) (out, in int)

	// out returns the i-th frame to a peer. ok is false while it is not ready;
	// drive asks again. The bytes do not change until sent.
	out(peer, i int) (frame []byte, ok bool)

	// in returns where to store the i-th frame from a peer; ok is false while there
	// is no space. It is not called before all ranks have agreed to the call.
	in(peer, i int) (frame []byte, ok bool)

	sent(peer, i int)
	received(peer, i int)
}

// drive runs a collective: it exchanges calls over the links of the running algorithm, then the
// frames of w. Every link makes progress as it can; when none can, drive waits for all of
// them at once.
func (b *Backend) drive(w algorithm) error {
	left := b.prepare(w)
	for left > 0 {
		moved := false
		for _, l := range b.links {
			n, did, err := b.progress(l, w)
			if err != nil {
				return b.named(w, err)
			}
			left -= n
			moved = moved || did
		}
		if left > 0 && !moved {
			if err := b.wait(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepare counts the frames to send and receive.
func (b *Backend) prepare(w algorithm) (left int) {
	for _, l := range b.links {
		l.in.next, l.out.next, l.out.call, l.readable = l.stream, l.stream, b.op.met, true
	}
	b.op.waiting = 0
	for _, l := range b.links {
		if l.at < 0 || l.stream > 0 {
			continue
		}
		if !b.op.met {
			b.op.agreed[l.rank] = false
			b.op.waiting++
			left += 2
		}
		out, in := w.frames(l.at)
		b.op.out[l.at], b.op.in[l.at] = out, in
		left += out + in
	}
	return left
}

// progress sends and receives on one link what it can, at most a frame each, and
// counts the frames that are complete.
func (b *Backend) progress(l *link, w algorithm) (done int, moved bool, err error) {
	if l.writable {
		n, did, err := b.push(l, w)
		if err != nil {
			return 0, false, err
		}
		done, moved = done+n, did
	}
	if l.readable {
		n, did, err := b.pull(l, w)
		if err != nil {
			return 0, false, err
		}
		done, moved = done+n, moved || did
	}
	return done, moved, nil
}

// push continues a frame, or starts the next.
func (b *Backend) push(l *link, w algorithm) (done int, moved bool, err error) {
	o := &l.out
	if o.size == 0 && !b.load(l, w) {
		return 0, false, nil
	}
	total := o.size + len(o.body)
	if o.gone < total {
		n, err := l.write(rest(o.head[:o.size], o.body, o.gone))
		o.gone += n
		if err == errAgain {
			return 0, n > 0, nil
		}
		if err != nil {
			return 0, false, b.writeFailed(l, err)
		}
		moved = true
	}
	if o.gone < total {
		return 0, moved, nil
	}
	flushed, err := l.flushed()
	if err != nil {
		return 0, false, b.broken(l.rank, err)
	}
	if !flushed {
		return 0, moved, nil
	}
	o.size, o.gone, o.body = 0, 0, nil
	if !o.call && l.stream == 0 {
		o.call = true
		return 1, true, nil
	}
	w.sent(l.at, o.next)
	o.next += l.streams
	return 1, true, nil
}

// load prepares the next frame to send, if there is one.
func (b *Backend) load(l *link, w algorithm) bool {
	o := &l.out
	if l.at < 0 {
		return false
	}
	if l.stream == 0 && !o.call {
		o.body = b.attachTo(l)
		o.size = headerSize + callSize
		header{kindCall, callSize + len(o.body)}.encode(o.head[:])
		b.op.call.encode(o.head[headerSize:])
	} else {
		if o.next >= b.op.out[l.at] || b.op.waiting > 0 && !b.op.eager {
			return false
		}
		body, ok := w.out(l.at, o.next)
		if !ok {
			return false
		}
		o.body, o.size = body, headerSize
		header{kindData, len(body)}.encode(o.head[:])
	}
	b.sent.headers.Add(int64(o.size))
	b.sent.payload.Add(int64(len(o.body)))
	return true
}

// due is the next frame that a link should receive.
type due struct {
	kind kind // 0: none can be received now
	more bool // one will come, now or later
	size int  // of header and call, what comes before the payload
	body []byte
}

func (b *Backend) due(l *link, w algorithm) due {
	switch in := &l.in; {
	case l.at < 0:
		return due{size: headerSize}
	case l.stream == 0 && !b.op.met && !b.op.agreed[l.rank]:
		return due{kindCall, true, headerSize + callSize, b.attachFrom(l)}
	case in.next >= b.op.in[l.at]:
		return due{size: headerSize}
	case b.op.waiting > 0:
		return due{more: true, size: headerSize}
	default:
		body, ok := w.in(l.at, in.next)
		if !ok {
			return due{more: true, size: headerSize}
		}
		return due{kindData, true, headerSize, body}
	}
}

// pull reads what has arrived of the next frame. If none is expected, it reads only a
// header: an abort message is handled at any time, any other frame waits.
func (b *Backend) pull(l *link, w algorithm) (done int, moved bool, err error) {
	in := &l.in
	d := b.due(l, w)
	if d.kind == 0 && in.got == headerSize {
		return 0, false, nil
	}
	if in.got < d.size+len(d.body) {
		n, err := l.read(rest(in.head[:d.size], d.body, in.got))
		if err == errAgain {
			return 0, false, nil
		}
		if err != nil {
			if d.more {
				return 0, false, b.broken(l.rank, err)
			}
			l.readable = false // the rank has done its part of this call
			return 0, false, nil
		}
		moved = true
		in.got += n
	}
	complete, err := b.inspect(l, d)
	if !complete || err != nil {
		return 0, moved, err
	}
	in.got, in.checked = 0, false
	if d.kind == kindCall {
		b.op.agreed[l.rank] = true
		b.op.waiting--
		return 1, true, nil
	}
	w.received(l.at, in.next)
	in.next += l.streams
	return 1, true, nil
}

// inspect checks what has arrived of a frame, and reports whether it is complete.
func (b *Backend) inspect(l *link, d due) (complete bool, err error) {
	in := &l.in
	if in.got < headerSize {
		return false, nil
	}
	if !in.checked {
		if in.frame, err = parseHeader(in.head[:]); err != nil {
			return false, b.peerError(l.rank, err.Error())
		}
		if in.frame.kind == kindAbort {
			return false, b.readAbort(l, d)
		}
	}
	switch {
	case d.kind == 0:
		return false, nil
	case in.frame.kind != d.kind:
		return false, b.peerError(l.rank, fmt.Sprintf("it sent a frame of kind %d instead of %d", in.frame.kind, d.kind))
	case d.kind == kindCall && !in.checked:
		if in.got < d.size {
			return false, nil
		}
		its := parseCall(in.head[headerSize:])
		if !b.op.accepts(its, b.group.Rank, l.rank) {
			return false, b.mismatch(l.rank, its)
		}
		b.op.calls[l.rank] = its
	}
	if want := d.size - headerSize + len(d.body); in.frame.length != want {
		return false, b.peerError(l.rank, fmt.Sprintf("it sent a frame of %d bytes instead of %d", in.frame.length, want))
	}
	in.checked = true
	return in.got == d.size+len(d.body), nil
}

// writeFailed returns the error of a failed write. An abort message that the peer sent
// before it closed the connection says more than the failed write.
func (b *Backend) writeFailed(l *link, cause error) error {
	d := due{size: headerSize}
	for l.in.got < headerSize {
		n, err := l.read(l.in.head[l.in.got:headerSize], nil)
		if l.in.got += n; err != nil {
			break
		}
	}
	if _, err := b.inspect(l, d); err != nil {
		return err
	}
	return b.broken(l.rank, cause)
}

// broken returns the error of a failed connection.
func (b *Backend) broken(rank int, err error) error {
	switch {
	case b.life.Closed():
		return instance.ErrClosed
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return b.peerError(rank, "it closed the connection")
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE): // with data underway
		return b.peerError(rank, "it closed the connection: "+err.Error())
	}
	return b.peerError(rank, err.Error())
}

// noPayload is for a collective that is complete when all ranks have agreed.
type noPayload struct{}

func (noPayload) frames(int) (out, in int)    { return 0, 0 }
func (noPayload) out(int, int) ([]byte, bool) { panic("a frame of nothing") }
func (noPayload) in(int, int) ([]byte, bool)  { panic("a frame of nothing") }
func (noPayload) sent(int, int)               {}
func (noPayload) received(int, int)           {}
