package tcp

import (
	"crypto/tls"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/base/hostnet"
)

// seal is a connection under TLS. During the handshake it is an ordinary
// connection; then it is detached, and TLS reads from the descriptor what is
// there and writes into memory, from where it goes out as the descriptor takes it.
type seal struct {
	net.Conn // under the handshake, nil after it
	raw      net.Conn
	tls      *tls.Conn
	fd       int
	pending  []byte // encrypted and not yet handed to the system
	gone     int
}

// sealed is the most plain text that is encrypted at a time.
const sealed = 64 << 10

// sealing is the TLS of a job's ranks.
func sealing(secret []byte, job string) (*hostnet.TLS, error) {
	return hostnet.NewTLS(secret, "backend tcp "+job, "")
}

// sealConn puts a connection under TLS; deadlines of conn hold.
func sealConn(conn net.Conn, keys *hostnet.TLS, server bool) (*seal, error) {
	s := &seal{Conn: conn, raw: conn}
	if s.tls = keys.Client(s); server {
		s.tls = keys.Server(s)
	}
	return s, s.tls.Handshake()
}

// detach ends the ordinary life of the connection.
func (s *seal) detach(fd int) { s.Conn, s.fd = nil, fd }

// Read is for TLS.
func (s *seal) Read(p []byte) (int, error) {
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
func (s *seal) Write(p []byte) (int, error) {
	if s.Conn != nil {
		return s.Conn.Write(p)
	}
	s.pending = append(s.pending, p...)
	return len(p), nil
}

func (s *seal) read(head, body []byte) (int, error) {
	if len(head) == 0 {
		head = body
	}
	return s.tls.Read(head)
}

func (s *seal) write(head, body []byte) (int, error) {
	if err := s.flush(); err != nil {
		return 0, err
	}
	n := 0
	for _, p := range [][]byte{head, body} {
		p = p[:min(len(p), sealed-n)]
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

// flush hands over what is encrypted.
func (s *seal) flush() error {
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
