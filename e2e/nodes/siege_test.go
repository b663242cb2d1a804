//go:build linux

package nodes

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/e2e/rig"
)

// A thousand connections that send nothing, garbage, or the beginning of a TLS handshake, and
// are opened again whenever they are closed, do not keep a job from starting or training.
// They come from the ranks' own address, where no limit by address can help. TRAINCTL_SIEGE=1m
// goes on for a minute with each kind by itself.
func TestSiege(t *testing.T) {
	t.Parallel()
	lasts := 4 * time.Second
	kinds := map[string][]string{"mixed": {"idle", "garbage", "hello"}}
	if text := os.Getenv("TRAINCTL_SIEGE"); text != "" {
		var err error
		lasts, err = time.ParseDuration(text)
		rig.Must(t, err)
		kinds = map[string][]string{"idle": {"idle"}, "garbage": {"garbage"}, "hello": {"hello"}}
	}
	for name, which := range kinds {
		t.Run(name, func(t *testing.T) { besieged(t, which, lasts) })
	}
}

func besieged(t *testing.T, kinds []string, lasts time.Duration) {
	const width = 8
	p := rig.NewPlace(t)
	base := rig.FreePorts(t, width)
	endpoint := fmt.Sprint("127.0.0.1:", base)
	args := append(rig.Endless(fmt.Sprintf("launch.port_range=%q", fmt.Sprintf("%d-%d", base, base+width-1)), "backend.options.shm=false", `backend.timeout="30s"`), "--nproc-per-node", "1")
	nodes := []*rig.Proc{p.Node(0, endpoint, args...).Start(t), nil}
	listening(t, endpoint)
	s := besiege(t, base, width, 1000, kinds)
	s.grown(t, 1000)
	nodes[1] = p.Node(1, endpoint, args...).Start(t)
	p.WaitForSteps(t, nodes[0], 1, 3)
	t.Logf("the job trains %v after node 1 started, beside %v", time.Since(nodes[1].Began).Round(time.Millisecond), s)
	slowest := trainsFor(t, p, lasts)
	t.Logf("in %v of training the longest time without a step was %v, beside %v", lasts, slowest, s)
	s.end()
	rig.Signal(t, nodes[0].Cmd.Process.Pid, syscall.SIGTERM)
	for _, n := range nodes {
		r := n.Wait(t).Expect(t, 143)
		lines := regexp.MustCompile(`(?m)^.*(refused|too many unauthenticated connections).*$`).FindAllString(r.Stderr, -1)
		if most := 12 * (1 + int(time.Since(nodes[0].Began)/time.Minute)); len(lines) > most {
			t.Errorf("%d lines about strangers, more than one for each cause, minute and listener:\n%s", len(lines), strings.Join(lines[:12], "\n"))
		}
	}
}

// trainsFor watches the first run for a duration, and returns the longest time between two of
// its steps.
func trainsFor(t *testing.T, p *rig.Place, lasts time.Duration) (slowest time.Duration) {
	t.Helper()
	for began := time.Now(); time.Since(began) < lasts; {
		before := time.Now()
		p.WaitForMoreSteps(t, 1, 1)
		slowest = max(slowest, time.Since(before))
	}
	return slowest
}

// siege is many connections that are opened again when they are closed.
type siege struct {
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	opened  atomic.Int64 // so far
	hello   []byte
}

func (s *siege) String() string { return fmt.Sprintf("%d connections so far", s.opened.Load()) }

// besiege opens n connections of the given kinds to the ports from first on, one after another,
// until end or the end of the test. Each is closed after a second at most.
func besiege(t *testing.T, first, ports, n int, kinds []string) *siege {
	t.Helper()
	s := &siege{hello: clientHello(t)}
	s.ctx, s.stop = context.WithCancel(t.Context())
	t.Cleanup(s.end)
	for i := range n {
		s.running.Go(func() {
			for n := i; s.ctx.Err() == nil; n++ {
				s.visit(fmt.Sprint("127.0.0.1:", first+n%ports), kinds[i%len(kinds)])
			}
		})
	}
	return s
}

func (s *siege) end() {
	s.stop()
	s.running.Wait()
}

// grown returns when n connections have been opened.
func (s *siege) grown(t *testing.T, n int64) {
	t.Helper()
	rig.Eventually(t, fmt.Sprintf("%d connections", n), func() bool { return s.opened.Load() >= n })
}

// visit opens one connection, sends what its kind sends, and keeps it open until the other
// side closes it or its time is up.
func (s *siege) visit(address, kind string) {
	var d net.Dialer
	c, err := d.DialContext(s.ctx, "tcp", address)
	if err != nil {
		select {
		case <-time.After(50 * time.Millisecond): // no listener there yet
		case <-s.ctx.Done():
		}
		return
	}
	s.opened.Add(1)
	defer c.Close()
	_ = c.(*net.TCPConn).SetLinger(0) // or ports run out: they stay taken for a minute
	defer context.AfterFunc(s.ctx, func() { c.Close() })()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	switch kind {
	case "garbage":
		_, _ = c.Write([]byte("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"))
	case "hello":
		_, _ = c.Write(s.hello)
	}
	_, _ = io.Copy(io.Discard, c)
}

// clientHello is the first message of a TLS 1.3 client.
func clientHello(t *testing.T) []byte {
	t.Helper()
	near, far := net.Pipe()
	defer far.Close()
	defer near.Close()
	go tls.Client(near, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}).Handshake()
	b := make([]byte, 16<<10)
	n, err := far.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return bytes.Clone(b[:n])
}
