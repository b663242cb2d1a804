package host_test

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
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

// A data set whose process is killed, at any moment, serves the same batches from the same
// slots: those that were requested come, and one in use stays as it is.
func TestDatasetIsReplaced(t *testing.T) {
	bothPlanes(t, func(t *testing.T) {
		d, err := newHost(t, host.Options{}).StartDataset(t.Context(), "fake")
		must(t, err)
		var told []host.Replaced
		d.Replace(host.Replacement{Restarts: 3, Report: func(r host.Replaced) { told = append(told, r) }})
		_, err = d.Open(t.Context(), sdk.DatasetRequest{Options: sdk.Options{"broken": false, "mode": "ok"}})
		must(t, err)
		must(t, d.Prepare(3, 2))
		kill := func() { end(d.PID()) }
		ask := func(slot int, at int64) { must(t, d.Request(slot, sdk.Train, 7, 1, []int64{at, at + 1})) }
		expect := func(slot int, at float32) []float32 {
			t.Helper()
			in, _, err := d.Wait(slot)
			must(t, err)
			got := tensor.View[float32](in)
			if want := []float32{at, 7, at + 1, 7}; !slices.Equal(got, want) {
				t.Errorf("slot %d has %v, want %v", slot, got, want)
			}
			return got
		}
		ask(0, 10)
		inUse := expect(0, 10)
		ask(1, 20)
		ask(2, 30)
		kill()
		expect(1, 20)
		kill()
		ask(1, 40) // the slot of a batch that was used
		expect(2, 30)
		expect(1, 40)
		if inUse[0] != 10 {
			t.Errorf("the batch in use is now %v", inUse)
		}
		for err == nil { // a batch may have been complete before its process was killed
			kill()
			if err = d.Request(0, sdk.Train, 7, 1, []int64{1}); err == nil {
				_, _, err = d.Wait(0)
			}
		}
		equal(t, "replacements", d.Replaced(), 3)
		equal(t, "reports", len(told), 3)
		if !errors.Is(err, host.ErrDied) || !strings.Contains(err.Error(), "dataset.restarts = 3 are used up") {
			t.Errorf("got %v", err)
		}
		_ = d.Close(t.Context()) // of the one that was killed last
	})
}

// A precision plugin that is replaced has the scale of the one before, whether the host
// has its state or repeats its updates.
func TestPrecisionIsReplaced(t *testing.T) {
	bothPlanes(t, func(t *testing.T) {
		h := newHost(t, host.Options{})
		want, got := newPrecision(t, h, true), newPrecision(t, h, false)
		got.Replace(host.Replacement{Restarts: 4})
		for _, p := range []*host.Precision{want, got} {
			_, err := p.Policy(t.Context(), nil)
			must(t, err)
		}
		update := func(overflow bool) {
			t.Helper()
			a, err := want.Update(t.Context(), overflow)
			must(t, err)
			b, err := got.Update(t.Context(), overflow)
			must(t, err)
			equal(t, "scale", b, a)
		}
		kill := func() { end(got.PID()) }
		update(true)
		kill()
		update(true)
		for i := range 1100 { // more than the host remembers
			update(i == 40)
		}
		kill()
		update(true)
		state, err := got.State(t.Context())
		must(t, err)
		kill()
		update(true)
		must(t, want.Load(t.Context(), state))
		must(t, got.Load(t.Context(), state))
		kill()
		update(true)
		equal(t, "replacements", got.Replaced(), 4)
		kill()
		if _, err := got.Update(t.Context(), false); !errors.Is(err, host.ErrDied) || !strings.Contains(err.Error(), "precision.restarts = 4 are used up") {
			t.Errorf("got %v", err)
		}
		_ = got.Close(t.Context()) // of the one that was killed last
		must(t, want.Close(t.Context()))
	})
}

// An error that another process would report again is no reason to start one.
func TestCorruptDataReplaceNothing(t *testing.T) {
	d, err := newHost(t, host.Options{}).StartDataset(t.Context(), "fake")
	must(t, err)
	defer func() { must(t, d.Close(t.Context())) }()
	d.Replace(host.Replacement{Restarts: 1})
	_, err = d.Open(t.Context(), sdk.DatasetRequest{Options: sdk.Options{"broken": true, "mode": "ok"}})
	must(t, err)
	must(t, d.Prepare(2, 1))
	must(t, d.Request(0, sdk.Train, 0, 1, []int64{13}))
	if _, _, err := d.Wait(0); !errors.As(err, new(*host.DataError)) || d.Replaced() != 0 {
		t.Errorf("got %v after %d replacements", err, d.Replaced())
	}
}

// end kills a plugin's process and waits until it is gone.
func end(pid int) {
	for syscall.Kill(pid, syscall.SIGKILL) == nil {
		runtime.Gosched()
	}
}
