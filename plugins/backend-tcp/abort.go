package tcp

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/sdk"
)

// farewell is why a rank gave up. It follows everything the rank sent before,
// so a peer reads it in place of what it waits for.
type farewell struct {
	Reason string `json:"reason"` // "stall", "mismatch", "peer", "other"
	Ranks  []int  `json:"ranks,omitempty"`
	Mine   string `json:"mine,omitempty"`
	Its    string `json:"its,omitempty"`
	Text   string `json:"text,omitempty"`
}

const maxText = 512

func farewellFor(err error) farewell {
	var stall *sdk.StallError
	var mismatch *sdk.MismatchError
	var dead *sdk.PeerError
	switch {
	case errors.As(err, &stall):
		return farewell{Reason: "stall", Ranks: stall.Missing[:min(len(stall.Missing), 256)]}
	case errors.As(err, &mismatch):
		return farewell{Reason: "mismatch", Ranks: []int{mismatch.Rank, mismatch.Peer}, Mine: clip(mismatch.Mine), Its: clip(mismatch.Its)}
	case errors.As(err, &dead):
		return farewell{Reason: "peer", Ranks: []int{dead.Peer}, Text: clip(dead.Cause)}
	}
	return farewell{Reason: "other", Text: clip(err.Error())}
}

func clip(s string) string { return s[:min(len(s), maxText)] }

// heard turns rank from's farewell into this rank's error.
func (b *Backend) heard(from int, f farewell) error {
	me := b.group.Rank
	switch {
	case f.Reason == "stall" && slices.Contains(f.Ranks, me):
		return b.peerError(from, "it gave up waiting for this rank")
	case f.Reason == "stall":
		return b.stall(f.Ranks...)
	case f.Reason == "mismatch" && len(f.Ranks) == 2:
		return &sdk.MismatchError{Rank: f.Ranks[0], Peer: f.Ranks[1], Mine: f.Mine, Its: f.Its}
	case f.Reason == "peer" && len(f.Ranks) == 1 && f.Ranks[0] != me:
		return b.peerError(f.Ranks[0], f.Text)
	}
	return b.peerError(from, "it gave up: "+f.Text)
}

// abort tells every peer why this rank stops. It does not wait for anyone: a
// peer whose buffer is full learns it from the closed connection.
func (b *Backend) abort(cause error) {
	raw, err := json.Marshal(farewellFor(cause))
	if err != nil || len(raw) > maxAbort {
		raw = []byte(`{}`)
	}
	frame := append(make([]byte, headerSize), raw...)
	header{kindAbort, len(raw)}.encode(frame)
	limit := time.Now().Add(slice)
	for _, p := range b.peers {
		if p == nil || p.torn {
			continue
		}
		p.conn.SetWriteDeadline(limit)
		p.conn.Write(frame)
		p.torn = true
	}
	if b.local != nil {
		b.local.wake()
	}
}

func (b *Backend) readAbort(p *peer, length int) error {
	raw := make([]byte, length)
	if err := b.readFull(p, raw); err != nil {
		return err
	}
	var f farewell
	if err := json.Unmarshal(raw, &f); err != nil {
		return b.peerError(p.rank, errFrame.Error())
	}
	return b.heard(p.rank, f)
}

// lastWords lets peers read the farewell: closing a connection with unread
// bytes would make the system throw away what is still on its way to them.
func (b *Backend) lastWords() {
	limit := time.Now().Add(2 * slice)
	for _, p := range b.peers {
		if p == nil {
			continue
		}
		if c, ok := p.conn.(interface{ CloseWrite() error }); ok {
			c.CloseWrite()
		}
	}
	for _, p := range b.peers {
		if p != nil {
			p.conn.SetReadDeadline(limit)
			io.Copy(io.Discard, p.conn)
		}
	}
}

// lookAround checks the ranks that are not being waited for right now. One
// that gave up says so; one that is gone matters only before it agreed to the
// running call: later it may have finished and left, and if not, some rank
// that waits for it will tell.
func (b *Backend) lookAround(except *peer) error {
	for _, p := range b.peers {
		if p == nil || p == except {
			continue
		}
		next, err := peek(p)
		awaited := !b.op.agreed[p.rank] && b.op.everyone()
		switch {
		case err != nil && awaited:
			return b.broken(p, err)
		case err == nil && next == kindCall && awaited && b.inMemory():
			// Local ranks meet in memory; a call on the wire is half a transfer.
			its, _, err := b.readCall(p)
			if err != nil {
				return err
			}
			return b.mismatch(p.rank, its)
		case err == nil && next == kindAbort:
			_, err := b.readHeader(p, kindAbort)
			return err
		}
	}
	return nil
}

// everyone reports whether all ranks take part in the running call.
func (o *op) everyone() bool { return o.c.Op != sdk.OpSend && o.c.Op != sdk.OpRecv }

// peek says what p's next frame is, 0 when none is there, io.EOF when none will come.
func peek(p *peer) (next kind, err error) {
	raw, err := p.conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var first [1]byte
	n := -1
	var probe error
	if err := raw.Control(func(fd uintptr) {
		n, _, probe = unix.Recvfrom(int(fd), first[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	}); err != nil {
		return 0, err
	}
	switch {
	case probe == unix.EAGAIN || probe == unix.EINTR:
		return 0, nil
	case probe != nil:
		return 0, probe
	case n == 0:
		return 0, io.EOF
	}
	return kind(first[0]), nil
}
