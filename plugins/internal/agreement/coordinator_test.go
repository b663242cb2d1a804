package agreement

import (
	"bytes"
	"context"
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
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/internal/instance"
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
	limit := time.After(time.Minute)
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

// pair are two members of a group whose coordinator listens.
type pair struct {
	members [2]*Member
	port    int
	log     *logbook
}

// each runs f on both members at once.
func (p *pair) each(f func(m *Member) error) error {
	var errs [2]error
	var wg sync.WaitGroup
	for i, m := range p.members {
		wg.Go(func() { errs[i] = f(m) })
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

func (p *pair) join(t *testing.T) {
	t.Helper()
	if err := p.each(func(m *Member) error { return m.Join(t.Context(), p.port) }); err != nil {
		t.Fatal(err)
	}
}

// run runs a collective that does nothing.
func (p *pair) run(ctx context.Context) error {
	return p.each(func(m *Member) error {
		return m.Run(ctx, &sdk.Collective{Seq: 1, Op: sdk.OpBarrier, Bucket: -1}, func(context.Context, Stalled) error { return nil })
	})
}

func (p *pair) address() string { return coordinatorAddress("127.0.0.1", p.port) }

func openPair(t *testing.T, ports hostnet.Ports) *pair {
	t.Helper()
	p := &pair{log: &logbook{}}
	for i := range p.members {
		g := sdk.Group{JobID: "job", Secret: []byte("secret"), Rank: i, WorldSize: 2, LocalRank: i, LocalSize: 2, MasterAddr: "127.0.0.1"}
		life := instance.New("test")
		m := New(life, g)
		p.members[i] = m
		t.Cleanup(func() {
			if life.Close() {
				m.Close()
				life.End()
			}
		})
		port, err := m.Listen(t.Context(), ports, slog.New(slog.NewTextHandler(p.log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		p.port = max(p.port, port)
	}
	return p
}

// Many connections that send nothing, or what no rank sends, neither keep the ranks from
// connecting nor fill the log.
func TestCoordinatorUnderManyConnections(t *testing.T) {
	t.Parallel()
	p := openPair(t, hostnet.Ports{})
	const crowd = 300
	for i := range crowd {
		c, err := net.Dial("tcp", p.address())
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
	p.join(t)
	if err := p.run(t.Context()); err != nil {
		t.Error(err)
	}
	text := p.log.String()
	if n := strings.Count(text, "refused"); n != 1 || !strings.Contains(text, "speaks another protocol") {
		t.Errorf("%d lines about %d strangers:\n%s", n, crowd, text)
	}
}

// A peer that knows the secret but has no place in the group gets the reason, and the
// log has its address and the reason.
func TestCoordinatorReportsRefusals(t *testing.T) {
	t.Parallel()
	p := openPair(t, hostnet.Ports{})
	p.join(t)
	for want, change := range map[string]func(*sdk.Group){
		"its job is other":                 func(g *sdk.Group) { g.JobID = "other" },
		"its generation is 1":              func(g *sdk.Group) { g.Generation = 1 },
		"its epoch is 2, that of this":     func(g *sdk.Group) { g.Epoch = 2 },
		"its world size is 3":              func(g *sdk.Group) { g.WorldSize = 3 },
		"claims to be rank 7 of 2":         func(g *sdk.Group) { g.Rank = 7 },
		"rank 1, which is already connect": func(*sdk.Group) {},
	} {
		g := p.members[1].group
		change(&g)
		l, err := dial(t.Context(), "test", g, p.address())
		if err == nil {
			l.close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", want, err)
		}
		p.log.wait(t, want)
	}
	stranger := p.members[1].group
	stranger.Secret = []byte("guess")
	if _, err := dial(t.Context(), "test", stranger, p.address()); !errors.Is(err, hostnet.ErrUnauthenticated) {
		t.Errorf("with another secret: %v", err)
	}
	p.log.wait(t, "does not know the job's secret: it has a different one")
}

func TestCoordinatorListensInItsPorts(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	first := int64(min(free.Addr().(*net.TCPAddr).Port, 65505))
	free.Close()
	ports := func(from, to int64) hostnet.Ports {
		p, err := hostnet.PortsOf([]int64{from, to})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := openPair(t, ports(first, first+30)) // another test may take one
	port := int64(p.port)
	if port < first || port > first+30 {
		t.Errorf("listens on %d, outside %d-%d", port, first, first+30)
	}
	second := New(instance.New("test"), p.members[0].group)
	defer second.Close()
	if _, err := second.Listen(t.Context(), ports(port, port), slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "launch.port_range") {
		t.Errorf("a port was given twice: %v", err)
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

// A collective that only one rank calls names the other; the group is unusable afterwards.
func TestAMissingRankIsNamed(t *testing.T) {
	t.Parallel()
	p := openPair(t, hostnet.Ports{})
	p.join(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := p.members[0].Run(ctx, &sdk.Collective{Seq: 1, Op: sdk.OpBarrier}, func(context.Context, Stalled) error {
		t.Error("it ran without rank 1")
		return nil
	})
	if stall := (*sdk.StallError)(nil); !errors.As(err, &stall) || len(stall.Missing) != 1 || stall.Missing[0] != 1 || p.members[0].life.Failed == nil {
		t.Errorf("got %v", err)
	}
}
