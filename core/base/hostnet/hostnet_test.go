package hostnet

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/loopback"
)

// connected is a connection over loopback. A net.Pipe will not do: without a buffer,
// one end's alert waits for the other, which is still writing its certificate.
func connected(t *testing.T) (near, far net.Conn) {
	t.Helper()
	near, far = loopback.Pair(t)
	for _, c := range []net.Conn{near, far} {
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(time.Minute))
	}
	return near, far
}

// Both ends have to know the secret, and the label.
func TestTLSKnowsItsOwn(t *testing.T) {
	for name, test := range map[string]struct {
		secret, label, name string
		want                error
	}{
		"same": {"secret", "store", "job", nil}, "another job's name": {"secret", "store", "another", nil},
		"other secret": {"guess", "store", "another", ErrOtherSecret}, "no name": {"guess", "store", "", ErrOtherSecret},
		"other secret, same name": {"guess", "store", "job", ErrSameName}, "other purpose": {"secret", "mesh", "job", ErrUnauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			ours, err := NewTLS([]byte("secret"), "store", "job")
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := NewTLS([]byte(test.secret), test.label, test.name)
			if err != nil {
				t.Fatal(err)
			}
			near, far := connected(t)
			accepted := make(chan error, 1)
			go func() {
				s := ours.Server(near)
				err := s.Handshake()
				if err == nil && s.ConnectionState().Version != tls.VersionTLS13 {
					err = fmt.Errorf("version %x", s.ConnectionState().Version)
				}
				near.Close()
				accepted <- err
			}()
			c := theirs.Client(far)
			err = c.Handshake()
			far.Close()
			if !errors.Is(err, test.want) || test.want != ErrSameName && errors.Is(err, ErrSameName) {
				t.Errorf("dialling: %v, want %v", err, test.want)
			}
			if err := <-accepted; (err == nil) != (test.want == nil) {
				t.Errorf("accepting: %v", err)
			}
		})
	}
}

// A client that accepts any server presents a key that is not the job's.
func TestTLSRefusesAClientThatTakesAnything(t *testing.T) {
	ours, err := NewTLS([]byte("secret"), "store", "")
	if err != nil {
		t.Fatal(err)
	}
	stranger, _, err := identity([]byte("guess"), "store client", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, certs := range map[string][]tls.Certificate{"its own key": {stranger}, "no key": nil} {
		near, far := connected(t)
		go func() {
			c := tls.Client(far, &tls.Config{InsecureSkipVerify: true, Certificates: certs})
			c.Handshake()
			io.Copy(io.Discard, c)
		}()
		near.SetDeadline(time.Now().Add(10 * time.Second))
		if err := ours.Server(near).Handshake(); err == nil {
			t.Errorf("with %s it was let in", name)
		}
		near.Close()
		far.Close()
	}
}

// visitor is a connection from an address.
type visitor struct {
	net.Conn
	from   string
	closed *bool
}

func (v visitor) RemoteAddr() net.Addr {
	a, err := net.ResolveTCPAddr("tcp", v.from)
	if err != nil {
		panic(err)
	}
	return a
}

func (v visitor) Close() error               { *v.closed = true; return nil }
func (v visitor) Read(p []byte) (int, error) { return len(p), nil }

func visit(l *Limiter, from string) (v *Visit, closed *bool) {
	closed = new(bool)
	v, _ = l.enter(visitor{from: from, closed: closed})
	return v, closed
}

func TestLimiterMakesRoomWhereItIsCrowded(t *testing.T) {
	l := LimitTo(4)
	early, earlyClosed := visit(l, "10.0.0.1:1")
	early.Read(make([]byte, 1)) // speaks
	_, silentClosed := visit(l, "10.0.0.1:2")
	lonely, lonelyClosed := visit(l, "10.0.0.2:1")
	visit(l, "10.0.0.1:3")
	_, lateClosed := visit(l, "10.0.0.1:4") // one too many
	if !*silentClosed || *earlyClosed || *lonelyClosed || *lateClosed {
		t.Fatalf("closed: speaking %v, silent %v, of another address %v, the newest %v", *earlyClosed, *silentClosed, *lonelyClosed, *lateClosed)
	}
	for range 2 { // leaving twice is leaving once
		if !early.Leave() {
			t.Error("who was not closed was told so")
		}
	}
	if !lonely.Leave() {
		t.Error("who was not closed was told so")
	}
	if l.total != 2 || len(l.waiting) != 1 {
		t.Errorf("%d wait at %d addresses, want 2 at 1", l.total, len(l.waiting))
	}
}

func TestLimiterTellsWhoWasClosed(t *testing.T) {
	l := LimitTo(1)
	first, closed := visit(l, "[fd00::1]:1")
	second, _ := visit(l, "[fd00::2]:1") // of the same network: the same sender, as far as anybody knows
	if !*closed || first.Leave() || !second.Leave() || l.total != 0 {
		t.Error("the first one does not know that it was closed")
	}
}

func TestNotesTellOncePerMinuteAndCause(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var lines []string
	n := Notes{Write: func(s string) { lines = append(lines, s) }, now: func() time.Time { return now }}
	for range 1000 {
		n.Say("a", "refused %d", 1)
	}
	n.Say("b", "other")
	now = now.Add(61 * time.Second)
	n.Say("a", "refused %d", 2)
	if got, want := strings.Join(lines, "; "), "refused 1; other; refused 2 (and 999 more since 12:00:00)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	(&Notes{}).Say("a", "to nobody")
}

func TestPorts(t *testing.T) {
	for s, want := range map[string]Ports{"": {}, "29400-29500": {29400, 29500}, "80": {80, 80}, " 1 - 2 ": {1, 2}} {
		if p, err := ParsePorts(s); p != want || err != nil {
			t.Errorf("%q: %v %v", s, p, err)
		}
	}
	for _, s := range []string{"x", "2-1", "0-5", "1-65536", "-", "1-2-3", "1:2"} {
		if p, err := ParsePorts(s); err == nil {
			t.Errorf("%q is %v", s, p)
		}
	}
}

func TestListenTakesAFreePortOfTheRange(t *testing.T) {
	busy, err := Listen(t.Context(), net.ListenConfig{}, "127.0.0.1", Ports{})
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	first := busy.Addr().(*net.TCPAddr).Port
	l, err := Listen(t.Context(), net.ListenConfig{}, "127.0.0.1", Ports{first, min(65535, first+50)})
	if err != nil {
		t.Skipf("no free port beside %d: %v", first, err)
	}
	defer l.Close()
	if port := l.Addr().(*net.TCPAddr).Port; port <= first || port > first+50 {
		t.Errorf("port %d", port)
	}
	if _, err := Listen(t.Context(), net.ListenConfig{}, "127.0.0.1", Ports{first, first}); err == nil {
		t.Error("a port was given twice")
	}
}

func TestLocalHost(t *testing.T) {
	for host, want := range map[string]string{"127.0.0.1": "127.0.0.1", "127.9.9.9": "127.9.9.9", "node0": "", "203.0.113.7": "", "0.0.0.0": "", "::": ""} {
		if got := LocalHost(host); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}
