package hostnet

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// ErrStranger is a peer that speaks TLS and does not know the secret.
var ErrStranger = errors.New("it does not know the job's secret")

// ErrOtherSecret is an ErrStranger that serves the same purpose for a job of
// another secret.
var ErrOtherSecret = fmt.Errorf("%w: it has a different one", ErrStranger)

// ErrSameName is an ErrOtherSecret of a peer that gives its job the name that
// ours has (NewTLS): most probably ours, on a host that was given another secret.
var ErrSameName = fmt.Errorf("%w, for a job of the same name", ErrOtherSecret)

// TLS puts connections under TLS 1.3 with keys that both ends derive from a
// secret. Whoever has the secret has both keys; there are no files and nobody to
// sign. The accepting end proves itself first, and each end refuses any other
// key than the expected one, before a byte of what the connection is for passes.
type TLS struct{ server, client *tls.Config }

// NewTLS derives the keys. label keeps purposes apart: ends of different labels
// are strangers to each other. name is the job's and proves nothing: certificates
// carry a hash of it, so that an end with another secret can tell ErrSameName;
// "" tells nothing.
func NewTLS(secret []byte, label, name string) (*TLS, error) {
	tag := tagOf(name)
	server, serverKey, err := identity(secret, label+" server", tag)
	if err != nil {
		return nil, err
	}
	client, clientKey, err := identity(secret, label+" client", tag)
	if err != nil {
		return nil, err
	}
	return &TLS{server: config(server, clientKey, label+" client", tag), client: config(client, serverKey, label+" server", tag)}, nil
}

// tagOf is what certificates show of a job's name.
func tagOf(name string) string {
	if name == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("trainctl job " + name))
	return hex.EncodeToString(sum[:8])
}

// Server is the accepting end of a connection. Its handshake runs with the first
// read, write or call of Handshake, under conn's deadlines.
func (t *TLS) Server(conn net.Conn) *tls.Conn { return tls.Server(conn, t.server) }

// Client is the dialling end.
func (t *TLS) Client(conn net.Conn) *tls.Conn { return tls.Client(conn, t.client) }

// identity derives an Ed25519 key pair (RFC 8032) with HKDF (RFC 5869) and a
// certificate around it.
func identity(secret []byte, label, tag string) (tls.Certificate, ed25519.PublicKey, error) {
	seed, err := hkdf.Key(sha256.New, secret, nil, "trainctl tls 1 "+label, ed25519.SeedSize)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	public := key.Public().(ed25519.PublicKey)
	t := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: commonName(label), SerialNumber: tag}, NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(nil, t, t, public, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, public, err
}

// commonName says what a certificate is for. It proves nothing: who shows it and
// has another key was given another secret, or pretends so.
func commonName(label string) string { return "trainctl " + label }

func config(mine tls.Certificate, theirs ed25519.PublicKey, label, tag string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{mine}, ClientAuth: tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // of a chain of signatures; the key itself is compared
		VerifyConnection: func(s tls.ConnectionState) error {
			switch shown := s.PeerCertificates; {
			case len(shown) != 1:
				return ErrStranger
			case theirs.Equal(shown[0].PublicKey):
				return nil
			case shown[0].Subject.CommonName != commonName(label):
				return ErrStranger
			case tag != "" && shown[0].Subject.SerialNumber == tag:
				return ErrSameName
			}
			return ErrOtherSecret
		},
		SessionTicketsDisabled: true,
	}
}
