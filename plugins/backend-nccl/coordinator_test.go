package nccl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/engine/cuda/fakegpu"
	"github.com/trainctl/trainctl/core/sdk"
)

// logbook is a log that may be written while it is read.
type logbook struct {
	mu    sync.Mutex
	text  bytes.Buffer
	grown chan struct{} // closed with the next line; nil: none waits
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grown != nil {
		close(l.grown)
		l.grown = nil
	}
	return l.text.Write(p)
}

// wait returns when text is in the log.
func (l *logbook) wait(t *testing.T, text string) {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		l.mu.Lock()
		there := strings.Contains(l.text.String(), text)
		if l.grown == nil {
			l.grown = make(chan struct{})
		}
		grown := l.grown
		l.mu.Unlock()
		if there {
			return
		}
		select {
		case <-grown:
		case <-limit:
			t.Fatalf("%q is not in the log:\n%s", text, l)
		}
	}
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// openPair is a group of two ranks that have opened and listen, what is logged, and the coordinator's address.
func openPair(t *testing.T, o sdk.Options) (r ranks, endpoints [][]byte, log *logbook, coordinator string) {
	t.Helper()
	r, log = pairOn(fakegpu.New(2)), &logbook{}
	for i, b := range r {
		b.Log = slog.New(slog.NewTextHandler(log, nil))
		t.Cleanup(func() { b.Close() })
		g := sdk.Group{JobID: "job", Secret: []byte("secret"), Rank: i, WorldSize: 2, LocalRank: i, LocalSize: 2, MasterAddr: "127.0.0.1"}
		if err := b.Open(t.Context(), g, o); err != nil {
			t.Fatal(err)
		}
		e, err := b.Listen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		endpoints = append(endpoints, e)
	}
	return r, endpoints, log, coordinatorAddress("127.0.0.1", r[0].coordinator.port())
}

// A crowd that says nothing or what no rank would neither keeps the ranks from
// connecting nor fills the log.
func TestCoordinatorUnderManyConnections(t *testing.T) {
	t.Parallel()
	r, endpoints, log, address := openPair(t, nil)
	const crowd = 300
	for i := range crowd {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 {
			continue
		}
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, c) // until the coordinator has closed it
	}
	if err := errors.Join(r.each(func(_ int, b *Backend) error { return b.Connect(t.Context(), endpoints) })...); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.reduce(t.Context())...); err != nil {
		t.Error(err)
	}
	text := log.String()
	if n := strings.Count(text, "refused"); n != 1 || !strings.Contains(text, "speaks another protocol") {
		t.Errorf("%d lines about %d strangers:\n%s", n, crowd, text)
	}
}

// A peer that knows the secret but has no place in the group gets the reason, and the
// log has its address and the reason.
func TestCoordinatorReportsRefusals(t *testing.T) {
	t.Parallel()
	r, endpoints, log, address := openPair(t, nil)
	if err := errors.Join(r.each(func(_ int, b *Backend) error { return b.Connect(t.Context(), endpoints) })...); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*sdk.Group){
		"its job is other":                 func(g *sdk.Group) { g.JobID = "other" },
		"its generation is 1":              func(g *sdk.Group) { g.Generation = 1 },
		"its epoch is 2, that of this":     func(g *sdk.Group) { g.Epoch = 2 },
		"its world size is 3":              func(g *sdk.Group) { g.WorldSize = 3 },
		"claims to be rank 7 of 2":         func(g *sdk.Group) { g.Rank = 7 },
		"rank 1, which is already connect": func(*sdk.Group) {},
	} {
		g := r[1].group
		change(&g)
		l, err := dial(t.Context(), g, address)
		if err == nil {
			l.close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", want, err)
		}
		log.wait(t, want)
	}
	stranger := r[1].group
	stranger.Secret = []byte("guess")
	if _, err := dial(t.Context(), stranger, address); !errors.Is(err, hostnet.ErrUnauthenticated) {
		t.Errorf("with another secret: %v", err)
	}
	log.wait(t, "does not know the job's secret: it has a different one")
}

func TestCoordinatorListensInItsPorts(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	first := int64(min(free.Addr().(*net.TCPAddr).Port, 65505))
	free.Close()
	r, _, _, _ := openPair(t, sdk.Options{"port_range": []int64{first, first + 30}}) // another test may take one
	port := int64(r[0].coordinator.port())
	if port < first || port > first+30 {
		t.Errorf("listens on %d, outside %d-%d", port, first, first+30)
	}
	second := onFake(fakegpu.New(1), 22706)
	defer second.Close()
	if err := second.Open(t.Context(), r[0].group, sdk.Options{"port_range": []int64{port, port}}); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "launch.port_range") {
		t.Errorf("a port was given twice: %v", err)
	}
	if err := onFake(fakegpu.New(1), 22706).Open(t.Context(), sdk.Group{WorldSize: 1}, sdk.Options{"port_range": []int64{2, 1}}); err == nil {
		t.Error("a range that runs backwards was taken")
	}
}

// The coordinator listens where the ranks look for it.
func TestCoordinatorHost(t *testing.T) {
	for master, want := range map[string]string{"": "127.0.0.1", "localhost": "localhost", "127.0.0.1": "127.0.0.1", "::1": "::1", "node0": "", "203.0.113.7": ""} {
		if got := coordinatorHost(master); got != want {
			t.Errorf("%q: listens on %q, want %q", master, got, want)
		}
	}
	if got := coordinatorAddress("::1", 80); got != fmt.Sprint("[::1]:", 80) {
		t.Error(got)
	}
}
