package host_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/tensor"
)

// Whatever state the old process is in, the new one works in the same arena,
// and the old one is gone before that.
func TestRestart(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, pid int){
		"busy":    func(*testing.T, int) {},
		"killed":  func(t *testing.T, pid int) { must(t, syscall.Kill(pid, syscall.SIGKILL)) },
		"stopped": func(t *testing.T, pid int) { must(t, syscall.Kill(pid, syscall.SIGSTOP)) },
	} {
		t.Run(name, func(t *testing.T) {
			bothPlanes(t, func(t *testing.T) {
				b, arena := startBackend(t, newHost(t, host.Options{}), "deaf", time.Minute)
				_, err := b.Submit(allReduce(arena, 1, 0, 1))
				must(t, err)
				old := b.PID()
				before(t, old)
				must(t, b.Restart(t.Context()))
				if err := syscall.Kill(-old, 0); !errors.Is(err, syscall.ESRCH) {
					t.Errorf("the old process group is still there: %v", err)
				}
				openWith(t, b, "ok", time.Minute, arena)
				tensor.View[float32](arena.Bytes())[0] = 5
				ticket, err := b.Submit(allReduce(arena, 2, 0, 1))
				must(t, err)
				must(t, b.Wait(ticket))
				equal(t, "sum", tensor.View[float32](arena.Bytes())[0], 6)
				must(t, b.Close(t.Context()))
			})
		})
	}
}

func TestRestartInProcess(t *testing.T) {
	b := newBackend(t, nil, true)
	if err := b.Restart(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
	must(t, b.Close(t.Context()))
}
