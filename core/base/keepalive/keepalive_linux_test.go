//go:build !portable

package keepalive

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair is a connection on loopback, seen from both ends.
func pair(t *testing.T, bulk Bulk) (dialed, accepted *net.TCPConn) {
	t.Helper()
	lc, d := Listener(bulk), Dialer(bulk)
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

func withFD(t *testing.T, c *net.TCPConn, f func(fd int)) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { f(int(fd)) }); err != nil {
		t.Fatal(err)
	}
}

// Both ends end in the same time, whether data is in flight or not.
func TestBothEndsAreBounded(t *testing.T) {
	for bulk, timeout := range map[Bulk]int{false: 20000, true: 0} {
		a, b := pair(t, bulk)
		for name, c := range map[string]*net.TCPConn{"dialed": a, "accepted": b} {
			withFD(t, c, func(fd int) {
				for option, want := range map[int]int{unix.TCP_USER_TIMEOUT: timeout, unix.TCP_KEEPIDLE: 5, unix.TCP_KEEPINTVL: 5, unix.TCP_KEEPCNT: 3} {
					if got, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, option); got != want || err != nil {
						t.Errorf("%s, bulk %v: option %d is %d, want %d (%v)", name, bulk, option, got, want, err)
					}
				}
			})
		}
	}
}

// A receiver whose process reads nothing for a minute, as one that writes a
// checkpoint, is not a cut link: its kernel answers.
func TestSlowReaderIsNotSilent(t *testing.T) {
	a, _ := pair(t, true)
	full := make([]byte, 1<<20)
	for {
		a.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		if _, err := a.Write(full); errors.Is(err, os.ErrDeadlineExceeded) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	var w Watch
	withFD(t, a, func(fd int) {
		now := time.Now()
		for range 60 {
			now = now.Add(time.Second)
			if d := w.Unheard(fd, now); d >= Limit {
				t.Fatalf("taken for cut after %v", d)
			}
		}
	})
}

// A wait that begins after hours of quiet does not count them.
func TestQuietIsNotSilence(t *testing.T) {
	a, _ := pair(t, true)
	var w Watch
	withFD(t, a, func(fd int) {
		now := time.Now()
		w.Unheard(fd, now)
		if d := w.Unheard(fd, now.Add(time.Hour)); d != 0 {
			t.Errorf("an hour without polls counts as %v of silence", d)
		}
	})
}

func TestSilenceNamesBothEnds(t *testing.T) {
	here, there := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 29400}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 41000}
	for _, cause := range []error{syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ENETUNREACH} {
		err := Explain(&net.OpError{Op: "read", Net: "tcp", Source: here, Addr: there, Err: os.NewSyscallError("read", cause)})
		for _, want := range []string{"10.0.0.2:41000, seen from 10.0.0.1:29400, acknowledged nothing for 20s", "the network between them is down"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not say %q", err, want)
			}
		}
		if !errors.Is(err, cause) {
			t.Errorf("%v lost its cause", err)
		}
	}
	if err := errors.New("else"); Explain(err) != err {
		t.Error("an error of another kind was changed")
	}
}
