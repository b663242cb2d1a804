//go:build !linux || portable

package tcp

import (
	"context"
	"net"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/sdk"
)

// Without futexes and abstract sockets, local ranks use loopback.

const maxArenas = 64

type local struct{}

type chain struct{ noPayload }

func listenLocal() (net.Listener, string, error) { return nil, "", shm.ErrUnsupported }

func (b *Backend) shareMemory(context.Context) (*local, error) { return nil, shm.ErrUnsupported }

func (b *Backend) runLocal(*sdk.Collective) error { return shm.ErrUnsupported }

func (b *Backend) runHosts(*sdk.Collective) error { return shm.ErrUnsupported }

func (b *Backend) shareCost(context.Context) error { return shm.ErrUnsupported }

func (l *local) maps(*sdk.Collective) bool { return false }

func (l *local) present(int) bool { return false }

func (l *local) wake() {}

func (l *local) close() {}

func (l *link) ended() bool { return false }

// poller tries again after sleeps that grow while nothing happens.
type poller struct{ nap time.Duration }

const (
	firstNap = 20 * time.Microsecond
	lastNap  = time.Millisecond
)

func newPoller() *poller { return &poller{} }

func (p *poller) wait(links []*link, limit time.Duration) {
	for _, l := range links {
		if l.readable || l.writable && l.out.size > 0 { // there was something to do
			p.nap = 0
		}
	}
	p.nap = min(max(firstNap, 2*p.nap), lastNap, limit)
	time.Sleep(p.nap)
	for _, l := range links {
		l.readable, l.writable = true, true
	}
}
