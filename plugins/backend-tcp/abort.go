package tcp

import (
	"encoding/json"
	"errors"
	"slices"
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
	for _, l := range b.links {
		if l.lane > 0 || l.mute() {
			continue
		}
		l.silent = true
		if _, err := l.write(frame, nil); err == nil {
			_, _ = l.flushed()
		}
	}
	if b.local != nil {
		b.local.wake()
	}
}

// readAbort reads why a rank gave up. What was read beyond the header went to
// where the frame that was due should have gone.
func (b *Backend) readAbort(l *link, d due) error {
	raw := make([]byte, l.in.frame.length)
	here := copy(raw, l.in.head[headerSize:min(l.in.got, d.size)])
	here += copy(raw[here:], d.body[:max(l.in.got-d.size, 0)])
	if err := b.readRest(l, raw[here:]); err != nil {
		return b.broken(l.rank, err)
	}
	var f farewell
	if err := json.Unmarshal(raw, &f); err != nil {
		return b.peerError(l.rank, errFrame.Error())
	}
	return b.heard(l.rank, f)
}

// readRest reads a few bytes that are on their way.
func (b *Backend) readRest(l *link, buf []byte) error {
	for end := time.Now().Add(2 * slice); len(buf) > 0; {
		n, err := l.read(buf, nil)
		buf = buf[n:]
		if err == errAgain && time.Now().Before(end) {
			l.deaf = false
			b.poller.wait([]*link{l}, slice)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// passBlame looks whether the ranks that a stall names are alive and wait for
// others themselves: then it names those. Ranks that came at the same time run
// out of time at the same time, so their farewells are here or on their way.
func (b *Backend) passBlame(err error) error {
	var stall *sdk.StallError
	if !errors.As(err, &stall) {
		return err
	}
	missing, silent := map[int]bool{}, map[int]*link{}
	for _, l := range b.links {
		if l.lane == 0 && slices.Contains(stall.Missing, l.rank) && l.in.got < headerSize {
			silent[l.rank] = l
		}
	}
	for end := time.Now().Add(2 * slice); len(silent) > 0 && time.Now().Before(end); {
		for r, l := range silent {
			switch its, over := b.farewellOf(l); {
			case !over:
				continue
			case len(its) > 0:
				for _, m := range its {
					missing[m] = true
				}
				stall.Missing = slices.DeleteFunc(stall.Missing, func(m int) bool { return m == r })
			}
			delete(silent, r)
		}
		for _, l := range b.links {
			l.deaf, l.writable = silent[l.rank] != l, true
		}
		b.poller.wait(b.links, slice)
	}
	for m := range missing {
		if m != b.group.Rank && !slices.Contains(stall.Missing, m) {
			stall.Missing = append(stall.Missing, m)
		}
	}
	slices.Sort(stall.Missing)
	return err
}

// farewellOf reads whom a rank waited for when it gave up; over says that there
// is no more to learn from it.
func (b *Backend) farewellOf(l *link) (missing []int, over bool) {
	n, err := l.read(l.in.head[l.in.got:headerSize], nil)
	if l.in.got += n; err != nil && err != errAgain {
		return nil, true
	}
	if l.in.got < headerSize {
		return nil, false
	}
	var its *sdk.StallError
	if _, err := b.inspect(l, due{size: headerSize}); errors.As(err, &its) {
		return its.Missing, true
	}
	return nil, true
}

// lastWords lets peers read the farewell: closing a connection with unread
// bytes would make the system throw away what is still on its way to them.
func (b *Backend) lastWords() {
	for _, l := range b.links {
		_ = unix.Shutdown(l.fd, unix.SHUT_WR)
	}
	sink := make([]byte, 64<<10)
	for end := time.Now().Add(2 * slice); time.Now().Before(end); {
		open := false
		for _, l := range b.links {
			for l.lost == nil && l.drain(sink) {
			}
			l.deaf, l.writable = l.lost != nil, true
			open = open || l.lost == nil
		}
		if !open {
			return
		}
		b.poller.wait(b.links, time.Until(end))
	}
}

// lookAround checks connections while ranks wait for each other in memory. One
// that gave up says so; one that is gone matters only before it agreed to the
// running call: later it may have finished and left, and if not, some rank
// that waits for it will tell.
func (b *Backend) lookAround() error {
	for _, l := range b.links {
		if l.lane > 0 {
			continue
		}
		for err := error(nil); err == nil && l.in.got < headerSize; {
			var n int
			n, err = l.read(l.in.head[l.in.got:headerSize], nil)
			l.in.got += n
		}
		awaited := !b.op.agreed[l.rank] && b.op.everyone()
		if l.in.got < headerSize {
			if l.lost != nil && awaited {
				return b.broken(l.rank, l.lost)
			}
			continue
		}
		if _, err := b.inspect(l, due{size: headerSize}); err != nil {
			return err
		}
		if awaited && l.in.frame.kind == kindCall {
			// Local ranks meet in memory; a call on the wire is half a transfer.
			if err := b.readRest(l, l.in.head[headerSize:]); err != nil {
				return b.broken(l.rank, err)
			}
			return b.mismatch(l.rank, parseCall(l.in.head[headerSize:]))
		}
	}
	return nil
}
