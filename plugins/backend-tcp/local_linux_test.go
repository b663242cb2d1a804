//go:build !portable

package tcp

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/sdk"
)

// A rank that is killed after it has called is noticed while another is missing: the ranks that wait
// do not wait until their deadline.
func TestKilledAfterItsCall(t *testing.T) {
	for _, world := range []int{3, crowd} {
		for _, victim := range []int{0, 1} {
			t.Run(fmt.Sprintf("rank %d of %d", victim, world), func(t *testing.T) {
				t.Parallel()
				all, _ := ranks(t, world, 0, nil)
				dieAfterCall(all[victim])
				missing := world - 1
				errs := make([]error, world)
				_ = together(missing, func(r int) error {
					if r != victim {
						errs[r] = all[r].Do(context.Background(), sumOf(make([]byte, 64), nil, 1))
					}
					return nil
				})
				for r, err := range errs[:missing] {
					var dead *sdk.PeerError
					if r != victim && (!errors.As(err, &dead) || dead.Peer != victim) {
						t.Errorf("rank %d: %v does not name rank %d", r, err, victim)
					}
				}
			})
		}
	}
}

// dieAfterCall leaves what a process leaves that comes to the first barrier and is killed there.
func dieAfterCall(b *Backend) {
	l := b.local
	if l.gate != nil {
		l.gate.arrived().Add(1)
	}
	l.pages[b.group.Rank].phase().Store(l.phase + 1)
	for _, k := range b.links {
		_ = unix.Shutdown(k.fd, unix.SHUT_RDWR)
	}
}
