package mpi

import (
	"time"
	"unsafe"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/plugins/internal/clib"
)

const (
	// spinFor is how long a wait polls before it sleeps. A library moves data only
	// while it is called.
	spinFor = 500 * time.Microsecond
	// busy is how long a poll takes in which the library moved data: the next one
	// follows immediately.
	busy = 10 * time.Microsecond

	leastNap = 10 * time.Microsecond
	mostNap  = 200 * time.Microsecond
)

// pending is an operation that has begun.
type pending struct {
	request handle
	done    int32
	err     error
}

// poll reports whether the operation has ended.
func (b *Backend) poll(p *pending) bool {
	if p.done == 0 && p.err == nil {
		code := dl.Call(b.lib.test, 3, dl.Words{uintptr(unsafe.Pointer(&p.request)), uintptr(unsafe.Pointer(&p.done)), b.lib.ignore})
		if code != success {
			p.err = b.lib.failed("MPI_Test", code)
		}
	}
	return p.done != 0 || p.err != nil
}

// wait returns when the operation has ended, or with the reason why the wait must end.
// began is the error of the call that should have begun it.
func (b *Backend) wait(p *pending, began error, g clib.Guard) error {
	if began != nil {
		return began
	}
	if b.spin.Until(func() bool { return b.poll(p) }) {
		return p.err
	}
	for nap := leastNap; ; {
		start := time.Now()
		if b.poll(p) {
			return p.err
		}
		if err := g(); err != nil {
			return err
		}
		if time.Since(start) > busy {
			nap = leastNap
			continue
		}
		sleep(nap)
		nap = min(2*nap, mostNap)
	}
}
