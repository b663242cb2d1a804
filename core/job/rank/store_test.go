package rank

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/job/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ours, another = secret.New(), secret.New()

// logbook collects a server's log lines.
type logbook struct {
	mu    sync.Mutex
	lines []string
	new   chan string
}

func newLogbook() *logbook { return &logbook{new: make(chan string, 100)} }

func (l *logbook) log(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	l.mu.Lock()
	l.lines = append(l.lines, s)
	l.mu.Unlock()
	l.new <- s
}

func serve(t *testing.T, o StoreOptions) (*Server, string) {
	t.Helper()
	if o.RunID == "" {
		o.RunID = "test"
	}
	if o.Secret.IsZero() {
		o.Secret = ours
	}
	s, err := ListenStore("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, s.Addr().String()
}

func dial(t *testing.T, addr string, o DialOptions) *Client {
	t.Helper()
	if o.RunID == "" {
		o.RunID = "test"
	}
	if o.Secret.IsZero() {
		o.Secret = ours
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := DialStore(ctx, addr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func dialAll(t *testing.T, addr string, size int) []*Client {
	t.Helper()
	clients := make([]*Client, size)
	for r := range clients {
		clients[r] = dial(t, addr, DialOptions{Rank: r, Size: size, Host: fmt.Sprint("host", r)})
	}
	return clients
}

func TestStoreValues(t *testing.T) {
	_, addr := serve(t, StoreOptions{WorldSize: 2})
	c := dialAll(t, addr, 2)
	ctx := t.Context()

	got := make(chan []byte)
	go func() {
		v, _ := c[1].Get(ctx, "k")
		got <- v
	}()
	if err := c[0].Set(ctx, "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if v := <-got; string(v) != "v" {
		t.Errorf("got %q", v)
	}
	for i, want := range []int64{5, 3} {
		if n, err := c[i].Add(ctx, "n", []int64{5, -2}[i]); n != want || err != nil {
			t.Error(n, err)
		}
	}
	if _, err := c[0].Add(ctx, "k", 1); err == nil || !strings.Contains(err.Error(), "not a counter") {
		t.Error(err)
	}
	if now, ok, err := c[0].CompareAndSet(ctx, "cas", nil, []byte("a")); string(now) != "a" || !ok || err != nil {
		t.Error(now, ok, err)
	}
	if now, ok, err := c[1].CompareAndSet(ctx, "cas", []byte("x"), []byte("b")); string(now) != "a" || ok || err != nil {
		t.Error(now, ok, err)
	}
	if there, err := c[0].Delete(ctx, "cas"); !there || err != nil {
		t.Error(there, err)
	}
	if there, err := c[0].Delete(ctx, "cas"); there || err != nil {
		t.Error(there, err)
	}
	if err := c[0].Wait(ctx, "k", "n"); err != nil {
		t.Error(err)
	}
}

func TestExchangeMeetsByCall(t *testing.T) {
	const size = 5
	_, addr := serve(t, StoreOptions{WorldSize: size})
	clients := dialAll(t, addr, size)
	var g errgroup.Group
	for r, c := range clients {
		g.Go(func() error {
			for i := range 20 {
				all, err := Exchange(t.Context(), c, "e", r, size, []byte{byte(r), byte(i)})
				if err != nil {
					return err
				}
				for q, v := range all {
					if !bytes.Equal(v, []byte{byte(q), byte(i)}) {
						return fmt.Errorf("rank %d, call %d: %v of rank %d", r, i, v, q)
					}
				}
				if err := c.Barrier(t.Context(), "b", r, size); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func TestTimeoutNamesWhoIsMissing(t *testing.T) {
	_, addr := serve(t, StoreOptions{WorldSize: 4, Roster: []Peer{{Rank: 3, Host: "h3"}}})
	reports := make(chan Progress, 100)
	var clients []*Client
	for r := range 3 {
		clients = append(clients, dial(t, addr, DialOptions{Rank: r, Size: 4, Host: fmt.Sprint("host", r),
			ReportEvery: 5 * time.Millisecond, OnWait: func(p Progress) { reports <- p }}))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	for r := range 2 {
		go func() { done <- clients[r].Barrier(ctx, "start", r, 4) }()
	}
	for p := range reports { // until both are there
		if p.String() == `gather "barrier/start": 2 arrived (0, 1), missing `+describe(p.Missing) && len(p.Missing) == 2 {
			break
		}
	}
	cancel()
	for range 2 {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}

	short, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	err := clients[2].Barrier(short, "end", 2, 4)
	var late *TimeoutError
	if !errors.As(err, &late) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if ranks(late.Arrived) != "2" || ranks(late.Missing) != "0 1 3" {
		t.Errorf("arrived %v, missing %v", late.Arrived, late.Missing)
	}
	if p := late.Missing[0]; p.Host != "host0" || p.Addr == "" {
		t.Errorf("missing rank 0 is %+v", p)
	}
	if p := late.Missing[2]; p.Host != "h3" || p.Addr != "" || !strings.Contains(err.Error(), "rank 3 (h3, not connected)") {
		t.Errorf("missing rank 3 is %+v in %v", p, err)
	}

	short, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err = clients[0].Get(short, "never"); !errors.As(err, &late) || ranks(late.Missing) != "3" {
		t.Error(err)
	}
}

func ranks(l []Peer) string { return strings.ReplaceAll(rankList(l), ",", "") }

func TestDialTimesOut(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = DialStore(ctx, addr, DialOptions{RunID: "x", Secret: ours, Size: 2, Rank: 1})
	var late *TimeoutError
	if !errors.As(err, &late) || !strings.Contains(err.Error(), addr) || late.Cause == nil {
		t.Error(err)
	}
}

func TestStoreRefuses(t *testing.T) {
	book := newLogbook()
	_, addr := serve(t, StoreOptions{RunID: "a", WorldSize: 2, Generation: 1, Log: book.log})
	dial(t, addr, DialOptions{RunID: "a", Rank: 0, Size: 2, Generation: 1})
	for _, tc := range []struct {
		o    DialOptions
		want string
	}{
		{DialOptions{RunID: "b", Rank: 1, Size: 2, Generation: 1}, "wrong job"},
		{DialOptions{RunID: "a", Rank: 1, Size: 3, Generation: 1}, "wrong world size: this job has 2 ranks, the rank expects 3"},
		{DialOptions{RunID: "a", Rank: 0, Size: 2, Generation: 1}, "duplicate rank"},
		{DialOptions{RunID: "a", Rank: 1, Size: 2}, "wrong start"},
		{DialOptions{RunID: "a", Rank: 2, Size: 2, Generation: 1}, "outside"},
	} {
		tc.o.Secret = ours
		_, err := DialStore(t.Context(), addr, tc.o)
		var no *RefusedError
		if !errors.As(err, &no) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want %s", err, tc.want)
		}
		if line := <-book.new; !strings.Contains(line, tc.want) {
			t.Errorf("log says %q, want %s", line, tc.want)
		}
	}
}

func TestStrangersAreRefusedBeforeAnythingIsParsed(t *testing.T) {
	book := newLogbook()
	_, addr := serve(t, StoreOptions{WorldSize: 1, Log: book.log})
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	conn.Write([]byte("GET / HTTP/1.1\r\nHost: a.example.org\r\n\r\n"))
	io.Copy(io.Discard, conn)
	conn.Close()
	if line := <-book.new; !strings.Contains(line, "another protocol") {
		t.Errorf("log says %q", line)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var other *SecretError // at once, not when time is up
	if _, err := DialStore(ctx, addr, DialOptions{RunID: "test", Secret: another, Size: 1}); !errors.As(err, &other) || !errors.Is(err, ErrNotThisJob) || ctx.Err() != nil {
		t.Error(err)
	}
	if line := <-book.new; !strings.Contains(line, "it has a different one; give all hosts the same "+secret.Env) {
		t.Errorf("log says %q", line)
	}
	if c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}); err == nil { // and shows no certificate at all
		io.Copy(io.Discard, c)
		c.Close()
	}
	if line := <-book.new; !strings.Contains(line, "does not know the job's secret") && !strings.Contains(line, "did not prove") {
		t.Errorf("log says %q", line)
	}
	dial(t, addr, DialOptions{Size: 1}) // one that does is let in
}

// What passes between a rank and the store shows neither the job's id nor a
// value, and does not change while it is read.
func TestNothingTravelsInClear(t *testing.T) {
	_, addr := serve(t, StoreOptions{RunID: "the-id-of-the-run", WorldSize: 1})
	wire := tap(t, addr)
	c := dial(t, wire.addr, DialOptions{RunID: "the-id-of-the-run", Size: 1, Host: "the-host-of-the-rank"})
	if err := c.Set(t.Context(), "the-key", []byte("learning_rate = 0.1")); err != nil {
		t.Fatal(err)
	}
	if v, err := c.Get(t.Context(), "the-key"); err != nil || string(v) != "learning_rate = 0.1" {
		t.Fatal(string(v), err)
	}
	seen := wire.seen()
	for _, word := range []string{"the-id", "the-host", "the-key", "learning_rate"} {
		if bytes.Contains(seen, []byte(word)) {
			t.Errorf("%q is readable on the wire", word)
		}
	}
	if len(seen) < 500 {
		t.Errorf("only %d bytes were seen", len(seen))
	}
}

// wiretap passes bytes on and keeps a copy.
type wiretap struct {
	addr string
	mu   sync.Mutex
	b    []byte
}

func (w *wiretap) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b = append(w.b, p...)
	return len(p), nil
}

func (w *wiretap) seen() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.b)
}

func tap(t *testing.T, addr string) *wiretap {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wiretap{addr: ln.Addr().String()}
	var pumps sync.WaitGroup
	t.Cleanup(pumps.Wait)
	t.Cleanup(func() { ln.Close() })
	pumps.Go(func() {
		near, err := ln.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", addr)
		if err != nil {
			near.Close()
			return
		}
		t.Cleanup(func() { near.Close(); far.Close() })
		pumps.Go(func() { io.Copy(io.MultiWriter(far, w), near) })
		pumps.Go(func() { io.Copy(io.MultiWriter(near, w), far) })
	})
	return w
}

// Silent connections, more than may wait at a time and all from the ranks' own
// address, neither keep ranks out nor fill the log.
func TestSilentConnectionsDoNotBlockOthers(t *testing.T) {
	const crowd, room = 300, 64
	book := newLogbook()
	_, addr := serve(t, StoreOptions{WorldSize: 8, Log: book.log, limiter: hostnet.LimitTo(room)})
	stop := make(chan struct{})
	var idlers, there sync.WaitGroup
	var opened atomic.Int64
	there.Add(crowd)
	for range crowd {
		idlers.Go(func() {
			arrived := sync.OnceFunc(there.Done)
			defer arrived()
			for {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					return
				}
				opened.Add(1)
				arrived()
				ended := make(chan struct{})
				go func() { io.Copy(io.Discard, conn); close(ended) }()
				select {
				case <-ended: // and comes again
					conn.Close()
				case <-stop:
					conn.Close()
					<-ended
					return
				}
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		})
	}
	there.Wait()
	clients := dialAll(t, addr, 8)
	var g errgroup.Group
	for r, c := range clients {
		g.Go(func() error { return c.Barrier(t.Context(), "b", r, 8) })
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	close(stop)
	idlers.Wait()
	book.mu.Lock()
	defer book.mu.Unlock()
	if len(book.lines) > 5 {
		t.Errorf("%d connections left %d lines, one a minute and cause is enough:\n%s", opened.Load(), len(book.lines), strings.Join(book.lines[:5], "\n"))
	}
}

func TestRankThatVanishesEndsEveryWait(t *testing.T) {
	left := make(chan int, 1)
	_, addr := serve(t, StoreOptions{WorldSize: 3, OnLeave: func(r int, _ time.Time, err error) { left <- r }})
	c := dialAll(t, addr, 3)
	errs := make(chan error, 2)
	go func() { errs <- c[0].Barrier(t.Context(), "b", 0, 3) }()
	go func() { _, err := c[1].Get(t.Context(), "k"); errs <- err }()
	c[2].conn.Close() // as the kernel does for a killed process
	if r := <-left; r != 2 {
		t.Errorf("rank %d left", r)
	}
	for range 2 {
		var gone *PeerLeftError
		if err := <-errs; !errors.As(err, &gone) || gone.Peer.Rank != 2 || gone.Clean {
			t.Error(err)
		}
	}
	var gone *PeerLeftError
	if err := c[0].Wait(t.Context(), "later"); !errors.As(err, &gone) {
		t.Error(err)
	}
}

func TestGoodbyeEndsOnlyWhatItHinders(t *testing.T) {
	s, addr := serve(t, StoreOptions{WorldSize: 2, OnLeave: func(r int, _ time.Time, err error) { t.Errorf("rank %d: %v", r, err) }})
	c := dialAll(t, addr, 2)
	c[1].Close()
	var gone *PeerLeftError
	if err := c[0].Barrier(t.Context(), "b", 0, 2); !errors.As(err, &gone) || !gone.Clean {
		t.Error(err)
	}
	if err := c[0].Set(t.Context(), "k", nil); err != nil {
		t.Error(err)
	}
	c[0].Close()
	if err := s.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStoreLost(t *testing.T) {
	s, addr := serve(t, StoreOptions{WorldSize: 1})
	c := dial(t, addr, DialOptions{Size: 1})
	errs := make(chan error)
	go func() { _, err := c.Get(t.Context(), "k"); errs <- err }()
	s.Close()
	if err := <-errs; !errors.Is(err, ErrStoreLost) {
		t.Error(err)
	}
	<-c.lost
}

func TestGatherRefusesMisfits(t *testing.T) {
	var last frame
	b := newState(3, nil, func(_ request, f frame) { last = f })
	ask := func(conn, rank, size int) {
		last = frame{}
		b.ask(request{conn, 1}, frame{op: opGather, body: fields{}.text("g").number(int64(rank)).number(int64(size)).bytes(nil)})
	}
	ask(0, 0, 3)
	if last.op != 0 {
		t.Fatal("answered before the others came")
	}
	for _, tc := range []struct {
		conn, rank, size int
		want             string
	}{
		{1, 1, 2, "rank 1 expects 2 ranks, the others expect 3"},
		{1, 2, 3, "rank 1 cannot call it as rank 2"},
		{0, 0, 3, "already called it"},
	} {
		ask(tc.conn, tc.rank, tc.size)
		if last.op != opError || !strings.Contains(string(last.body), tc.want) {
			t.Errorf("%+v: %d %q", tc, last.op, last.body)
		}
	}
}

func TestJoin(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	given := map[string]secret.Secret{"secret": ours}
	for name, env := range map[string]vars{"plain": {}, "secret": {}, "torchrun": {"TORCHELASTIC_USE_AGENT_STORE": "True"}} {
		t.Run(name, func(t *testing.T) {
			// The port of this listener stands for torch's own store under torchrun.
			busy, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			port := busy.Addr().(*net.TCPAddr).Port
			if name == "torchrun" {
				defer busy.Close()
			} else {
				busy.Close()
			}
			const size = 3
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var g errgroup.Group
			for r := range size {
				w := World{Rank: r, Size: size, LocalRank: r, LocalSize: size, Nodes: 1, MasterAddr: "127.0.0.1", MasterPort: port, RunID: "join-" + name}
				g.Go(func() error {
					c, err := Join(ctx, w, JoinOptions{Env: env.lookup, Secret: given[name]})
					if err != nil {
						return err
					}
					all, err := Exchange(ctx, c, "hosts", r, size, []byte{byte(r)})
					if err == nil && !slices.Equal(bytes.Join(all, nil), []byte{0, 1, 2}) {
						err = fmt.Errorf("exchanged %v", all)
					}
					return errors.Join(err, c.Close())
				})
			}
			if err := g.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Among several ports a rank skips the stores of other jobs, and fails soon if the store of its
// own job refuses it.
func TestSearchKnowsItsOwnJob(t *testing.T) {
	_, stranger := serve(t, StoreOptions{RunID: "job", Secret: another, PublicName: "job at 1", WorldSize: 2})
	_, neighbour := serve(t, StoreOptions{RunID: "other", WorldSize: 2})
	_, mine := serve(t, StoreOptions{RunID: "job", PublicName: "job at 2", WorldSize: 2})
	mute, err := net.Listen("tcp", "127.0.0.1:0") // and must not be waited for
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	find := func(o DialOptions, addrs ...string) error {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), handshakeTime-time.Second)
		defer cancel()
		o.RunID, o.Rank, o.certain = "job", 1, time.Millisecond
		c, err := search(ctx, append([]string{mute.Addr().String()}, addrs...), o.filled())
		if err == nil {
			err = c.Close()
		}
		if err != nil && ctx.Err() != nil {
			t.Errorf("it took as long as it might: %v", err)
		}
		return err
	}
	if err := find(DialOptions{Secret: ours, Size: 2, PublicName: "job at 2"}, stranger, neighbour, mine); err != nil {
		t.Errorf("beside other jobs: %v", err)
	}
	var other *SecretError
	if err := find(DialOptions{Secret: ours, Size: 2, PublicName: "job at 1"}, neighbour, stranger); !errors.As(err, &other) || other.Addr != stranger {
		t.Errorf("with another secret: %v", err)
	}
	var no *RefusedError
	if err := find(DialOptions{Secret: ours, Size: 3, PublicName: "job at 2"}, stranger, neighbour, mine); !errors.As(err, &no) || no.Addr != mine {
		t.Errorf("with another world size: %v", err)
	}
}

// A search that fails names what it found, while it waits and when its time is up.
func TestSearchReportsWhatItFound(t *testing.T) {
	_, stranger := serve(t, StoreOptions{RunID: "job", Secret: another, WorldSize: 2})
	ctx, cancel := context.WithCancel(t.Context())
	var told Progress
	o := DialOptions{RunID: "job", Secret: ours, Size: 2, ReportEvery: time.Millisecond, OnWait: func(p Progress) {
		if told = p; p.Cause != nil && strings.Contains(p.String(), "has a different secret") {
			cancel()
		}
	}}
	if _, err := search(ctx, []string{stranger, "127.0.0.1:1"}, o.filled()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if !strings.Contains(told.String(), stranger+" has a different secret") {
		t.Errorf("told %v", told)
	}
	late := &TimeoutError{Progress: told}
	if !errors.As(late, new(*SecretError)) || !strings.Contains(late.Error(), "launch.secret_file") {
		t.Error(late)
	}
}

// takenPort is a port of 127.0.0.1 that is in use until the test ends.
func takenPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

// The error for a range without a free port names the range.
func TestPortRangeIsUsedUp(t *testing.T) {
	port := takenPort(t)
	s, err := ListenStore("127.0.0.1:0", StoreOptions{Secret: ours, WorldSize: 1, Ports: hostnet.Ports{First: port, Last: port}})
	if err == nil {
		s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("launch.port_range = %d-%d", port, port)) || !strings.Contains(err.Error(), "fix: widen the range") {
		t.Error(err)
	}
}

func TestJoinReportsPortInUse(t *testing.T) {
	w := Single()
	w.MasterPort = takenPort(t)
	alone, err := Join(t.Context(), w, JoinOptions{Env: vars{}.lookup}) // needs no port that others know
	if err != nil {
		t.Fatal(err)
	}
	if err := alone.Close(); err != nil {
		t.Error(err)
	}
	w.Size, w.LocalSize = 2, 2
	_, err = Join(t.Context(), w, JoinOptions{Env: vars{}.lookup, Secret: ours})
	if err == nil || !strings.Contains(err.Error(), "another process uses that port") || !strings.Contains(err.Error(), "MASTER_PORT") {
		t.Error(err)
	}
}

func TestJoinThroughTheLaunchersStore(t *testing.T) {
	_, addr := serve(t, StoreOptions{RunID: "r", WorldSize: 1, Generation: 2})
	env := vars{}
	w := Single()
	w.RunID, w.RestartCount = "r", 2
	for _, kv := range WorkerEnv(w, WorkerSettings{Store: addr}) {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	c, err := Join(t.Context(), w, JoinOptions{Env: env.lookup, Secret: ours})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
