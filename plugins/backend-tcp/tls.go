package tcp

import (
	"crypto/tls"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/base/hostnet"
)

// tlsConn is a connection with TLS. During the handshake it is an ordinary
// connection; then it is detached, and TLS reads without blocking from the descriptor
// and writes to memory, which is written to the descriptor as it accepts it.
type tlsConn struct {
	net.Conn // during the handshake, nil after it
	raw      net.Conn
	tls      *tls.Conn
	fd       int
	pending  []byte // encrypted and not yet written
	gone     int
}

// maxPlaintext is how much is encrypted at a time.
const maxPlaintext = 64 << 10

// tlsKeys returns the TLS keys of a job's ranks.
func tlsKeys(secret []byte, job string) (*hostnet.TLS, error) {
	return hostnet.NewTLS(secret, "backend tcp "+job, "")
}

// startTLS does the TLS handshake on a connection; deadlines of conn hold.
func startTLS(conn net.Conn, keys *hostnet.TLS, server bool) (*tlsConn, error) {
	s := &tlsConn{Conn: conn, raw: conn}
	if s.tls = keys.Client(s); server {
		s.tls = keys.Server(s)
	}
	return s, s.tls.Handshake()
}

// detach switches from conn to its descriptor.
func (s *tlsConn) detach(fd int) { s.Conn, s.fd = nil, fd }

// Read is for TLS.
func (s *tlsConn) Read(p []byte) (int, error) {
	if s.Conn != nil {
		return s.Conn.Read(p)
	}
	n, err := unix.Read(s.fd, p)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, os.ErrDeadlineExceeded // TLS takes this for temporary
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write is for TLS.
func (s *tlsConn) Write(p []byte) (int, error) {
	if s.Conn != nil {
		return s.Conn.Write(p)
	}
	s.pending = append(s.pending, p...)
	return len(p), nil
}

func (s *tlsConn) read(head, body []byte) (int, error) {
	if len(head) == 0 {
		head = body
	}
	return s.tls.Read(head)
}

func (s *tlsConn) write(head, body []byte) (int, error) {
	if err := s.flush(); err != nil {
		return 0, err
	}
	n := 0
	for _, p := range [][]byte{head, body} {
		p = p[:min(len(p), maxPlaintext-n)]
		if len(p) == 0 {
			continue
		}
		if _, err := s.tls.Write(p); err != nil {
			return 0, err
		}
		n += len(p)
	}
	if err := s.flush(); err != nil && settle(err) != errAgain {
		return 0, err
	}
	return n, nil
}

// flush writes what is encrypted.
func (s *tlsConn) flush() error {
	for s.gone < len(s.pending) {
		n, err := unix.Write(s.fd, s.pending[s.gone:])
		if err != nil {
			return err
		}
		s.gone += n
	}
	s.pending, s.gone = s.pending[:0], 0
	return nil
}
