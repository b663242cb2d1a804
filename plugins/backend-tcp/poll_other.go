//go:build !linux

package tcp

import "time"

// poller tries again after naps that grow while nothing happens.
type poller struct{ nap time.Duration }

const (
	firstNap = 20 * time.Microsecond
	lastNap  = time.Millisecond
)

func newPoller() *poller { return &poller{} }

func (p *poller) wait(links []*link, limit time.Duration) {
	for _, l := range links {
		if l.readable || l.writable && l.out.size > 0 { // the last nap was not in vain
			p.nap = 0
		}
	}
	p.nap = min(max(firstNap, 2*p.nap), lastNap, limit)
	time.Sleep(p.nap)
	for _, l := range links {
		l.readable, l.writable = true, true
	}
}
