package host_test

import (
	"encoding/json"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/plugin/flight"
	"github.com/trainctl/trainctl/core/plugin/host"
)

// The file tells what a process did last, whichever process died: its entries do not
// wait for anybody to close it.
func TestFlightsSurviveInAFile(t *testing.T) {
	bothPlanes(t, func(t *testing.T) {
		dir := t.TempDir()
		b, arena := startBackend(t, newHost(t, host.Options{FlightDir: func() string { return dir }}), "ok", time.Minute)
		read := func() []shm.Flight {
			raw, flights, _, err := shm.ReadFlightFile(flight.Path(dir, 0, 0))
			must(t, err)
			var about flight.About
			must(t, json.Unmarshal(raw, &about))
			equal(t, "world", about.World, 1)
			equal(t, "plugin", about.Plugin, "fake")
			return flights
		}
		for seq := range uint64(3) {
			ticket, err := b.Submit(allReduce(arena, seq+1, 0, 16))
			must(t, err)
			must(t, b.Wait(ticket))
		}
		must(t, b.Restart(t.Context()))
		openWith(t, b, "deaf", time.Minute, arena)
		_, err := b.Submit(allReduce(arena, 4, 0, 16))
		must(t, err)
		flights := read()
		equal(t, "operations", len(flights), 4)
		for i, f := range flights {
			equal(t, "seq", f.Seq, uint64(i+1))
			equal(t, "bytes", f.Bytes, 64)
			equal(t, "ended", f.Ended.IsZero(), i == 3)
		}
		equal(t, "generation of the first", flights[0].Generation, 1)
		must(t, syscall.Kill(b.PID(), syscall.SIGKILL))
		if err := b.Wait(1); !errors.Is(err, host.ErrDied) {
			t.Errorf("Wait: %v", err)
		}
		equal(t, "operations after the death", len(read()), 4)
		must(t, b.Close(t.Context()))
	})
}

// What a process has begun and not ended is in the file without a call of the host's.
func TestFlightsOfAHungOperation(t *testing.T) {
	dir := t.TempDir()
	b, arena := startBackend(t, newHost(t, host.Options{FlightDir: func() string { return dir }}), "deaf", time.Minute)
	_, err := b.Submit(allReduce(arena, 1, 0, 16))
	must(t, err)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, flights, _, err := shm.ReadFlightFile(flight.Path(dir, 0, 0))
		must(t, err)
		if !flights[0].Started.IsZero() && flights[0].Ended.IsZero() {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not started: %+v", flights[0])
		}
	}
	must(t, syscall.Kill(b.PID(), syscall.SIGKILL))
}
