package hostnet

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Acceptor accepts connections from any peer. Its Limiter bounds how many of them
// may be unauthenticated at a time; beyond that it writes a line to Notes.
type Acceptor struct {
	Limiter *Limiter
	Notes   *Notes
}

// Run accepts until l is closed. It passes each connection to serve, which must not
// block, and must call Leave on it and close it.
func (a Acceptor) Run(l net.Listener, serve func(*Visit)) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			a.Notes.Say("accept", "accept: %v", err)
			time.Sleep(50 * time.Millisecond) // out of descriptors; the peers try again
			continue
		}
		visit, evicted := a.Limiter.enter(conn)
		if evicted {
			a.Notes.Say("crowd", "too many unauthenticated connections: closed the oldest one from the address that has most of them; a new one came from %s", conn.RemoteAddr())
		}
		serve(visit)
	}
}

// CauseOtherSecret is Refusal's cause for a process of trainctl with another secret.
const CauseOtherSecret = "other secret"

// Refusal explains why the handshake of TLS.Server failed: it returns a cause for
// Notes, and what the peer did, as text to write after its address.
func Refusal(err error) (cause, text string) {
	var other tls.RecordHeaderError
	switch {
	case errors.As(err, &other):
		return "protocol", fmt.Sprintf("speaks another protocol (began with %q)", other.RecordHeader[:])
	case errors.Is(err, ErrOtherSecret), hungUpOnUs(err):
		return CauseOtherSecret, "does not know the job's secret: it has a different one"
	case errors.Is(err, ErrUnauthenticated):
		return "secret", "does not know the job's secret"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "silence", "did not prove in time that it knows the job's secret"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "hung up", "disconnected before it proved that it knows the job's secret"
	}
	return "handshake", "did not prove that it knows the job's secret: " + err.Error()
}

// hungUpOnUs reports whether the peer refused our key. A peer with another secret
// does so, since the accepting end authenticates itself first.
func hungUpOnUs(err error) bool {
	var alert *net.OpError
	return errors.As(err, &alert) && alert.Op == "remote error"
}
