//go:build !portable

package tcp

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/base/shm"
)

// poller waits for links: it spins for a while, yielding the core, and then
// sleeps. One goroutine uses it.
type poller struct {
	spin shm.Spinner
	fds  []unix.PollFd
	look func() bool
}

func newPoller() *poller {
	p := &poller{spin: shm.Spinner{For: shm.DefaultSpin()}}
	p.look = func() bool { return p.poll(0) }
	return p
}

// wait marks links that became readable or writable, at the latest after limit.
func (p *poller) wait(links []*link, limit time.Duration) {
	p.fds = p.fds[:0]
	for _, l := range links {
		f := unix.PollFd{Fd: int32(l.fd)}
		if !l.paused {
			f.Events = unix.POLLIN
		}
		if !l.writable && l.lost == nil {
			f.Events |= unix.POLLOUT
		}
		if f.Events == 0 { // else poll would report the closed connection every time
			f.Fd = -1
		}
		p.fds = append(p.fds, f)
	}
	if !p.spin.Until(p.look) && !p.poll(limit) {
		return
	}
	const end = unix.POLLHUP | unix.POLLERR | unix.POLLNVAL
	for i, l := range links {
		l.readable = l.readable || p.fds[i].Revents&(unix.POLLIN|end) != 0
		l.writable = l.writable || p.fds[i].Revents&(unix.POLLOUT|end) != 0
	}
}

// ended reports whether the peer sends nothing more after what has arrived.
func (l *link) ended() bool {
	fds := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLRDHUP}}
	n, _ := unix.Poll(fds, 0)
	return n > 0
}

func (p *poller) poll(limit time.Duration) bool {
	ts := unix.NsecToTimespec(int64(limit))
	n, _ := unix.Ppoll(p.fds, &ts, nil) // an interrupted wait is a short one
	return n > 0
}
