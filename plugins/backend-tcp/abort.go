package tcp

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/sdk"
)

// abortMessage is the reason why a rank stopped. It follows everything the rank sent before,
// so a peer reads it in place of the frame that it waits for.
type abortMessage struct {
	Reason string `json:"reason"` // "stall", "mismatch", "peer", "other", or "deadline", see askLeader
	Ranks  []int  `json:"ranks,omitempty"`
	Mine   string `json:"mine,omitempty"`
	Its    string `json:"its,omitempty"`
	Text   string `json:"text,omitempty"`
}

const maxText = 512

func abortMessageFor(err error) abortMessage {
	var stall *sdk.StallError
	var mismatch *sdk.MismatchError
	var dead *sdk.PeerError
	switch {
	case errors.As(err, &stall):
		return abortMessage{Reason: "stall", Ranks: stall.Missing[:min(len(stall.Missing), 256)]}
	case errors.As(err, &mismatch):
		return abortMessage{Reason: "mismatch", Ranks: []int{mismatch.Rank, mismatch.Peer}, Mine: clip(mismatch.Mine), Its: clip(mismatch.Its)}
	case errors.As(err, &dead):
		return abortMessage{Reason: "peer", Ranks: []int{dead.Peer}, Text: clip(dead.Cause)}
	}
	return abortMessage{Reason: "other", Text: clip(err.Error())}
}

func clip(s string) string { return s[:min(len(s), maxText)] }

// abortError returns this rank's error for the abort message of another.
func (b *Backend) abortError(from int, f abortMessage) error {
	me := b.group.Rank
	switch absent := b.absent(); {
	case f.Reason == "deadline":
		return b.stall() // of those for whom this rank waits
	case f.Reason == "stall" && b.blames(from, f.Ranks) && len(absent) > 0:
		return b.stall(absent...)
	case f.Reason == "stall" && b.blames(from, f.Ranks):
		return b.peerError(from, "it timed out waiting for this rank, or for another of this host")
	case f.Reason == "stall":
		return b.stall(f.Ranks...)
	case f.Reason == "mismatch" && len(f.Ranks) == 2:
		return &sdk.MismatchError{Rank: f.Ranks[0], Peer: f.Ranks[1], Mine: f.Mine, Its: f.Its}
	case f.Reason == "peer" && len(f.Ranks) == 1 && f.Ranks[0] != me:
		return b.peerError(f.Ranks[0], f.Text)
	}
	return b.peerError(from, "it stopped: "+f.Text)
}

// blames reports whether a rank waited for this one, or a rank of another host for any of this host.
func (b *Backend) blames(from int, ranks []int) bool {
	return slices.ContainsFunc(ranks, func(r int) bool {
		return r == b.group.Rank || b.topology.near(r) && !b.topology.near(from)
	})
}

// abort sends every peer of this host, or every other peer, the reason why this rank stops. It does
// not wait: a peer whose buffer is full sees the closed connection instead.
func (b *Backend) abort(cause error, near bool) {
	for _, l := range b.links {
		if b.topology.near(l.rank) == near {
			l.abort(abortMessageFor(cause))
		}
	}
	if near && b.local != nil {
		b.local.wake()
	}
}

// abort sends an abort message as the last one, if it still can.
func (l *link) abort(m abortMessage) {
	if l.stream > 0 || l.cannotSend() {
		return
	}
	raw, err := json.Marshal(m)
	if err != nil || len(raw) > maxAbort {
		raw = []byte(`{}`)
	}
	frame := append(make([]byte, headerSize), raw...)
	header{kindAbort, len(raw)}.encode(frame)
	l.aborted = true
	if _, err := l.write(frame, nil); err == nil {
		_, _ = l.flushed()
	}
	_ = unix.Shutdown(l.fd, unix.SHUT_WR) // a peer that cannot read yet what came before notices this
}

// askLeader tells the leader that this rank's time is up while it waits for ranks of this host that
// have called themselves. The leader knows, or learns from other hosts, for whom they wait.
func (b *Backend) askLeader(err error) (asked bool) {
	var stall *sdk.StallError
	waits := func(m int) bool { return b.topology.near(m) && b.local.present(m) }
	if b.leads() || !errors.As(err, &stall) || !slices.ContainsFunc(stall.Missing, waits) {
		return false
	}
	for _, l := range b.links {
		if l.rank == b.topology.leader() {
			l.abort(abortMessage{Reason: "deadline"})
		}
	}
	b.local.wake()
	return true
}

// absent returns the ranks of this host that have not called the running collective.
func (b *Backend) absent() (ranks []int) {
	if b.local == nil {
		return nil
	}
	for r, end := b.topology.local(); r < end; r++ {
		if r != b.group.Rank && !b.local.present(r) {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// readAbort reads an abort message. The bytes read beyond the header are where the
// expected frame would have been stored.
func (b *Backend) readAbort(l *link, d due) error {
	raw := make([]byte, l.in.frame.length)
	here := copy(raw, l.in.head[headerSize:min(l.in.got, d.size)])
	here += copy(raw[here:], d.body[:max(l.in.got-d.size, 0)])
	if err := b.readRest(l, raw[here:]); err != nil {
		return b.broken(l.rank, err)
	}
	var f abortMessage
	if err := json.Unmarshal(raw, &f); err != nil {
		return b.peerError(l.rank, errFrame.Error())
	}
	return b.abortError(l.rank, f)
}

// readRest reads a few bytes that have been sent already.
func (b *Backend) readRest(l *link, buf []byte) error {
	for end := time.Now().Add(2 * slice); len(buf) > 0; {
		n, err := l.read(buf, nil)
		buf = buf[n:]
		if err == errAgain && time.Now().Before(end) {
			l.paused = false
			b.poller.wait([]*link{l}, slice)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// refineStall replaces ranks that a stall names, but that wait for others themselves,
// by those others. Ranks that called at the same time also time out at the same
// time, so their abort messages have arrived or are about to.
func (b *Backend) refineStall(err error) error {
	var stall *sdk.StallError
	if !errors.As(err, &stall) {
		return err
	}
	patience := 2 * slice
	if b.local != nil && !b.inMemory() {
		patience = 10 * slice // a leader of another host may have to look at its own ranks first
	}
	missing, waiting, end := map[int]bool{}, map[int]*link{}, time.Now().Add(patience)
	for _, l := range b.links {
		if l.stream == 0 && l.in.got < headerSize && b.mayExplain(l.rank, stall.Missing) {
			if waiting[l.rank] = l; b.topology.near(l.rank) && b.local.present(l.rank) {
				end = time.Now().Add(30 * slice) // it asks others first
			}
		}
	}
	for len(waiting) > 0 && time.Now().Before(end) {
		for r, l := range waiting {
			switch its, over := b.abortFrom(l); {
			case !over:
				continue
			case len(its) > 0:
				for _, m := range its {
					missing[m] = true
				}
				stall.Missing = slices.DeleteFunc(stall.Missing, func(m int) bool { return m == r || b.relays(r, m) })
			}
			delete(waiting, r)
		}
		for _, l := range b.links {
			l.paused, l.writable = waiting[l.rank] != l, true
		}
		if len(waiting) > 0 {
			b.poller.wait(b.links, slice)
		}
	}
	for m := range missing {
		if m != b.group.Rank && !slices.Contains(stall.Missing, m) {
			stall.Missing = append(stall.Missing, m)
		}
	}
	slices.Sort(stall.Missing)
	return err
}

// mayExplain reports whether the abort message of a rank says for whom missing ranks wait.
func (b *Backend) mayExplain(rank int, missing []int) bool {
	return slices.ContainsFunc(missing, func(m int) bool { return m == rank || b.relays(rank, m) })
}

// relays reports whether a rank leads this host and a missing rank of this host, which has
// called, has told its reason to the leader alone.
func (b *Backend) relays(rank, missing int) bool {
	t := &b.topology
	return rank == t.leader() && t.near(rank) && missing != rank && t.near(missing) && b.local.present(missing)
}

// abortFrom reads from an abort message for whom a rank waited; over reports that
// nothing more will come from it.
func (b *Backend) abortFrom(l *link) (missing []int, over bool) {
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

// drainPeers gives peers time to read the abort message: if a connection with unread
// bytes is closed, the system discards what has not been delivered.
func (b *Backend) drainPeers() {
	for _, l := range b.links {
		_ = unix.Shutdown(l.fd, unix.SHUT_WR)
	}
	sink := make([]byte, 64<<10)
	for end := time.Now().Add(2 * slice); time.Now().Before(end); {
		open := false
		for _, l := range b.links {
			for l.lost == nil && l.drain(sink) {
			}
			l.paused, l.writable = l.lost != nil, true
			open = open || l.lost == nil
		}
		if !open {
			return
		}
		b.poller.wait(b.links, time.Until(end))
	}
}

// checkPeers checks connections while ranks wait for each other in shared memory. A
// rank that failed has sent an abort message. A closed connection is an error only
// before the rank has agreed to the running call: after that the rank may have
// finished and left. If it has not, deserted or a rank that waits for it reports it.
func (b *Backend) checkPeers() error {
	if err := b.adoptPairs(); err != nil {
		return err
	}
	for _, l := range b.links {
		if l.stream > 0 {
			continue
		}
		for err := error(nil); err == nil && l.in.got < headerSize; {
			var n int
			n, err = l.read(l.in.head[l.in.got:headerSize], nil)
			l.in.got += n
		}
		awaited := !b.op.agreed[l.rank] && b.op.everyone()
		if l.in.got < headerSize {
			if l.lost != nil && awaited && l.way == bothWays {
				return b.broken(l.rank, l.lost)
			}
			continue
		}
		if _, err := b.inspect(l, due{size: headerSize}); err != nil {
			return err
		}
		if !awaited || l.in.frame.kind != kindCall {
			continue
		}
		if b.topology.near(l.rank) {
			// Local ranks exchange calls in shared memory; a call on their sockets is one end of a transfer.
			if err := b.readRest(l, l.in.head[headerSize:]); err != nil {
				return b.broken(l.rank, err)
			}
			return b.mismatch(l.rank, parseCall(l.in.head[headerSize:]))
		}
		if l.ended() {
			return b.afterCall(l)
		}
	}
	return nil
}

// afterCall returns the error of another host's leader that has sent its call, for which it is too
// early here, and then stopped.
func (b *Backend) afterCall(l *link) error {
	err := b.readRest(l, make([]byte, l.in.frame.length))
	if err == nil {
		err = b.readRest(l, l.in.head[:headerSize])
	}
	if err == nil {
		if _, err := b.inspect(l, due{size: headerSize}); err != nil {
			return err
		}
		err = io.EOF
	}
	return b.broken(l.rank, err)
}
