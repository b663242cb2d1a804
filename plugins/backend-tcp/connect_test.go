package tcp

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/loopback"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/internal/instance"
)

// A connection that does not belong to the group is refused with a line in the log
// that names the reason, and the group connects all the same.
func TestRefusedConnections(t *testing.T) {
	const world = 3
	log := &logBook{}
	all, endpoints, address := listening(t, world, log)
	joined := make(chan error, world)
	join := func(r int) { joined <- all[r].Connect(context.Background(), endpoints) }
	log.expect("msg=admitted", "peer=1")
	go join(0)
	go join(1)
	log.wait(t, "rank 1")
	as := func(change func(*sdk.Group)) func(net.Conn) error {
		b := New()
		b.group, b.set.connections = testGroup(2, world), 1
		change(&b.group)
		return func(c net.Conn) error { return b.dialHandshake(c, 0, 0) }
	}
	for _, guest := range []struct {
		name          string
		dialHandshake func(net.Conn) error
		want          string // in the log
	}{
		{"a browser", func(c net.Conn) error {
			return say(c, "GET / HTTP/1.1\r\nHost: a-host-with-a-rather-long-name\r\n\r\n")
		}, "does not use this protocol"},
		{"a stranger", as(func(g *sdk.Group) { g.Secret = []byte("guess") }), "closed the connection"}, // it refuses the listener
		{"a liar", func(c net.Conn) error { return say(c, magic+strings.Repeat("x", nonceSize+helloSize+macSize)) }, "does not know the job's secret"},
		{"another job", as(func(g *sdk.Group) { g.JobID = "other" }), "another job"},
		{"another size", as(func(g *sdk.Group) { g.WorldSize = 9 }), "another world size"},
		{"an old group", as(func(g *sdk.Group) { g.Epoch = 7 }), "another epoch"},
		{"itself", as(func(g *sdk.Group) { g.Rank = 0 }), "not expected here"},
		{"a second rank 1", as(func(g *sdk.Group) { g.Rank = 1 }), "already connected"},
		{"an echo", replay(t, address, as(func(g *sdk.Group) { g.Generation = 3 })), ""}, // the same reason: no second line
	} {
		if guest.want != "" {
			log.expect("refused a connection", guest.want)
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := guest.dialHandshake(conn); err == nil {
			t.Errorf("%s was accepted", guest.name)
		}
		conn.Close()
		if guest.want != "" {
			log.wait(t, guest.name)
		}
	}
	go join(2)
	for range world {
		if err := <-joined; err != nil {
			t.Error(err)
		}
	}
}

// listening is a group that has opened and listens, without shared memory, and the
// address of rank 0.
func listening(t *testing.T, world int, log io.Writer) (all []*Backend, endpoints [][]byte, address string) {
	t.Helper()
	for r := range world {
		b := New()
		b.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		t.Cleanup(func() { b.Close() })
		if err := b.Open(t.Context(), testGroup(r, world), sdk.Options{"shm": false}); err != nil {
			t.Fatal(err)
		}
		e, err := b.Listen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all, endpoints = append(all, b), append(endpoints, e)
	}
	first, err := instance.ParseEndpoint[endpoint](endpoints[0], 0, endpointVersion)
	if err != nil {
		t.Fatal(err)
	}
	return all, endpoints, first.TCP
}

// say sends something invalid and waits until the other side closes the connection.
func say(c net.Conn, text string) error {
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, c)
	return errors.Join(errors.New("shut"), err)
}

// replay records a handshake and returns a function that repeats it.
func replay(t *testing.T, address string, dialHandshake func(net.Conn) error) func(net.Conn) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	tape := &tapped{Conn: conn}
	_ = dialHandshake(tape) // refused, but with a valid proof
	if n := len(magic) + nonceSize + helloSize + macSize; tape.said.Len() != n {
		t.Fatalf("recorded %d bytes of %d", tape.said.Len(), n)
	}
	return func(c net.Conn) error { return say(c, tape.said.String()) }
}

type tapped struct {
	net.Conn
	said bytes.Buffer
}

func (c *tapped) Write(p []byte) (int, error) {
	c.said.Write(p)
	return c.Conn.Write(p)
}

// logBook waits for a line that has all words.
type logBook struct {
	mu   sync.Mutex
	text strings.Builder
	want []string
	seen chan struct{}
}

func (l *logBook) expect(words ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
	l.want, l.seen = words, make(chan struct{})
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	for _, w := range l.want {
		if !strings.Contains(string(p), w) {
			return len(p), nil
		}
	}
	if l.want != nil {
		l.want = nil
		close(l.seen)
	}
	return len(p), nil
}

func (l *logBook) wait(t *testing.T, who string) {
	t.Helper()
	select {
	case <-l.seen:
	case <-time.After(time.Minute):
		l.mu.Lock()
		defer l.mu.Unlock()
		t.Fatalf("no line about %s: %s", who, l.text.String())
	}
}

// A certificate of another job's secret is refused by both sides, and those of
// one job use TLS 1.3.
func TestTLS(t *testing.T) {
	for name, test := range map[string]struct {
		secret string
		job    string
		ok     bool
	}{"same": {"secret", "job", true}, "other secret": {"guess", "job", false}, "other job": {"secret", "other", false}} {
		t.Run(name, func(t *testing.T) {
			near, far := loopback.Pair(t)
			ours, err := tlsKeys([]byte("secret"), "job")
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := tlsKeys([]byte(test.secret), test.job)
			if err != nil {
				t.Fatal(err)
			}
			inside := make(chan error, 1)
			go func() {
				s, err := startTLS(near, ours, true)
				if err == nil {
					_, err = s.tls.Read(make([]byte, 1)) // the client's certificate is verified here
				}
				near.Close()
				inside <- err
			}()
			s, err := startTLS(far, theirs, false)
			if err == nil {
				_, err = s.tls.Write([]byte{1})
			}
			if v := s.tls.ConnectionState().Version; test.ok && v != tls.VersionTLS13 {
				t.Errorf("TLS version %x", v)
			}
			far.Close()
			if in := <-inside; (in == nil) != test.ok || (err == nil) != test.ok {
				t.Errorf("inside %v, outside %v", in, err)
			}
		})
	}
}

// One rank with TLS and one without do not connect, and both report why.
func TestTLSOnOneSide(t *testing.T) {
	listener, caller := testGroup(0, 2), testGroup(1, 2)
	a, c := New(), New()
	a.group, c.group = listener, caller
	a.set = settings{connections: 1, tls: true}
	c.set = settings{connections: 1}
	near, far := net.Pipe()
	done := make(chan error)
	go func() {
		_, err := a.receive(near, func(int, int) bool { return true })
		near.Close()
		done <- err
	}()
	outside := c.dialHandshake(far, 0, 0)
	if inside := <-done; inside == nil || outside == nil || !strings.Contains(outside.Error(), "other options") {
		t.Errorf("inside %v, outside %v", inside, outside)
	}
}

// A thousand connections that send nothing, or something invalid, are open when the ranks
// connect. The ranks connect all the same, and the log has only a few lines about it.
func TestManyStrangersConnecting(t *testing.T) {
	const world, crowd = 3, 1000
	log := &logBook{}
	all, endpoints, address := listening(t, world, log)
	joined := make(chan error, world)
	join := func(r int) { joined <- all[r].Connect(context.Background(), endpoints) }
	go join(0) // accepts connections from now on
	for i := range crowd {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if i%2 == 0 {
			_, _ = io.WriteString(c, strings.Repeat("x", len(magic)+nonceSize)) // it may be closed already
		}
	}
	go join(1)
	go join(2)
	for range world {
		if err := <-joined; err != nil {
			t.Error(err)
		}
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	if n := strings.Count(log.text.String(), "refused"); n > 4 {
		t.Errorf("%d lines about strangers:\n%s", n, log.text.String())
	}
}

// The error about a range without a free port names the range.
func TestPortRangeIsUsedUp(t *testing.T) {
	busy := listenLoopback(t)
	defer busy.Close()
	port := int64(busy.Addr().(*net.TCPAddr).Port)
	b := New()
	defer b.Close()
	if err := b.Open(t.Context(), testGroup(0, 2), sdk.Options{"shm": false, "port_range": []int64{port, port}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "port_range") {
		t.Error(err)
	}
}

// A link-local IPv6 address is refused: it is complete only with the name of an interface of this host.
func TestLinkLocalAddress(t *testing.T) {
	b := New()
	defer b.Close()
	if err := b.Open(t.Context(), testGroup(0, 2), sdk.Options{"interface": "fe80::1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "backend.options.interface") {
		t.Error(err)
	}
}

// A connection is passed on after the end of the handshake can no longer change its deadline; one that
// comes too late is closed, and so are those that nobody has collected.
func TestConnectionsAreDeliveredReady(t *testing.T) {
	for _, stream := range []int{0, pairStream} {
		j := &joining{b: New(), arrived: make(chan arrival, 1), callers: make(chan arrival, 1), stop: func() {}}
		j.b.listener = &listener{tcp: listenLoopback(t)}
		here, there := net.Pipe()
		closed := make(chan error, 1)
		go func() {
			_, err := there.Read(make([]byte, 1))
			closed <- err
		}()
		stopped := false
		j.deliver(arrival{stream: stream, conn: here}, func() bool {
			if stopped = true; len(j.arrived)+len(j.callers) > 0 {
				t.Errorf("stream %d: it was passed on before its deadline was settled", stream)
			}
			return true
		})
		if !stopped || len(j.arrived)+len(j.callers) != 1 {
			t.Fatalf("stream %d: it was not passed on", stream)
		}
		j.close()
		if err := <-closed; !errors.Is(err, io.EOF) {
			t.Errorf("stream %d: nobody has collected it, and it is open: %v", stream, err)
		}
		late, _ := net.Pipe()
		j.deliver(arrival{stream: stream, conn: late}, func() bool { return false })
		if _, err := late.Write([]byte{0}); !errors.Is(err, io.ErrClosedPipe) || len(j.arrived)+len(j.callers) > 0 {
			t.Errorf("stream %d: a connection that came too late was kept: %v", stream, err)
		}
	}
}

func listenLoopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// handshake connects caller to listener, which is rank 0, and returns the error of each.
func handshake(t *testing.T, listener, caller sdk.Group, claim func(rank, stream int) bool) (inside, outside error) {
	t.Helper()
	a, c := New(), New()
	a.group, c.group = listener, caller
	a.set.connections, c.set.connections = 1, 1
	near, far := net.Pipe()
	done := make(chan error)
	go func() {
		_, err := a.receive(near, claim)
		near.Close()
		done <- err
	}()
	outside = c.dialHandshake(far, 0, 0)
	far.Close()
	return <-done, outside
}

func TestHandshake(t *testing.T) {
	free := func(int, int) bool { return true }
	for name, test := range map[string]struct {
		change func(*sdk.Group)
		claim  func(rank, stream int) bool
		want   string
	}{
		"same group":   {func(*sdk.Group) {}, free, ""},
		"stranger":     {func(g *sdk.Group) { g.Secret = []byte("guess") }, free, "secret"},
		"wrong job":    {func(g *sdk.Group) { g.JobID = "other" }, free, "another job"},
		"old rank":     {func(g *sdk.Group) { g.Generation-- }, free, "another generation"},
		"old group":    {func(g *sdk.Group) { g.Epoch-- }, free, "another epoch"},
		"wrong world":  {func(g *sdk.Group) { g.WorldSize = 5 }, free, "another world size"},
		"wrong rank":   {func(g *sdk.Group) { g.Rank = 0 }, free, "not expected"},
		"rank too big": {func(g *sdk.Group) { g.Rank = 3 }, free, "not expected"},
		"duplicate":    {func(*sdk.Group) {}, func(int, int) bool { return false }, "already connected"},
	} {
		t.Run(name, func(t *testing.T) {
			listener, caller := testGroup(0, 3), testGroup(1, 3)
			listener.Generation, caller.Generation = 2, 2
			listener.Epoch, caller.Epoch = 1, 1
			test.change(&caller)
			inside, outside := handshake(t, listener, caller, test.claim)
			if test.want == "" {
				if inside != nil || outside != nil {
					t.Fatalf("inside %v, outside %v", inside, outside)
				}
				return
			}
			if outside == nil || !strings.Contains(outside.Error(), test.want) {
				t.Errorf("the caller has %v, want %q", outside, test.want)
			}
			if inside == nil {
				t.Error("the listener accepted it")
			}
		})
	}
}

// A listener that does not know the secret learns nothing and is refused.
func TestFalseListener(t *testing.T) {
	b := New()
	b.group = testGroup(1, 2)
	near, far := net.Pipe()
	go func() {
		buf := make([]byte, len(magic)+nonceSize)
		near.Read(buf)
		near.Write(make([]byte, nonceSize+macSize))
	}()
	if err := b.dialHandshake(far, 0, 0); !errors.Is(err, errNoProof) {
		t.Errorf("dialHandshake: %v", err)
	}
	near.Close()
	far.Close()
}

func FuzzHandshake(f *testing.F) {
	f.Add([]byte(magic + strings.Repeat("n", nonceSize+helloSize+macSize)))
	f.Fuzz(func(t *testing.T, sent []byte) {
		b := New()
		b.group = testGroup(0, 2)
		near, far := net.Pipe()
		go func() {
			far.Write(sent)
			far.Close()
		}()
		go func() { // the answer is of no interest
			var sink [256]byte
			for {
				if _, err := far.Read(sink[:]); err != nil {
					return
				}
			}
		}()
		if _, err := b.receive(near, func(int, int) bool { return true }); err == nil {
			t.Error("it was accepted")
		}
		near.Close()
	})
}

func FuzzHeader(f *testing.F) {
	good := make([]byte, headerSize)
	header{kindCall, callSize}.encode(good)
	f.Add(good)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) < headerSize {
			return
		}
		h, err := parseHeader(raw)
		if err != nil {
			return
		}
		if h.length > maxSegment || h.kind == kindCall && h.length < callSize {
			t.Errorf("%v was accepted", h)
		}
		again := make([]byte, headerSize)
		h.encode(again)
		if string(again) != string(raw[:headerSize]) {
			t.Errorf("%x was read as %x", raw[:headerSize], again)
		}
	})
}

func FuzzEndpoint(f *testing.F) {
	f.Add(instance.Encode(endpoint{Endpoint: instance.Endpoint{Version: 1, Rank: 3}, TCP: "10.0.0.1:4711", Host: "h", Unix: "@u"}))
	f.Add([]byte(`{"v":1,"rank":3,"tcp":"nowhere"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := instance.ParseEndpoint[endpoint](raw, 3, endpointVersion)
		if err == nil && (e.Rank != 3 || e.Version != endpointVersion) {
			t.Errorf("%q was accepted as %+v", raw, e)
		}
	})
}
