package tcp

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
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

// identity derives the key pair of the job's ranks and a certificate around
// it. Whoever has the job's secret has the key; there are no files and nobody
// to sign.
func identity(secret []byte, job string) (tls.Certificate, ed25519.PublicKey, error) {
	seed, err := hkdf.Key(sha256.New, secret, []byte(job), "trainctl backend tcp tls 1", ed25519.SeedSize)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	public := key.Public().(ed25519.PublicKey)
	t := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(nil, t, t, public, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, public, err
}

// sealing is the configuration of both sides: TLS 1.3, both show the job's
// key, and nothing else is believed.
func sealing(secret []byte, job string) (*tls.Config, error) {
	cert, public, err := identity(secret, job)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // of a chain of signatures; the key itself is compared
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) != 1 || !public.Equal(s.PeerCertificates[0].PublicKey) {
				return errors.New("its certificate is not the job's")
			}
			return nil
		},
		SessionTicketsDisabled: true,
	}, nil
}

// sealConn puts a connection under TLS; deadlines of conn hold.
func sealConn(conn net.Conn, config *tls.Config, server bool) (*seal, error) {
	s := &seal{Conn: conn, raw: conn}
	if s.tls = tls.Client(s, config); server {
		s.tls = tls.Server(s, config)
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
