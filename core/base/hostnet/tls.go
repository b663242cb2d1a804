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

// ErrUnauthenticated reports a peer that speaks TLS and does not know the secret.
var ErrUnauthenticated = errors.New("it does not know the job's secret")

// ErrOtherSecret is an ErrUnauthenticated for a peer with the same label and another secret.
var ErrOtherSecret = fmt.Errorf("%w: it has a different one", ErrUnauthenticated)

// ErrSameName is an ErrOtherSecret for a peer whose job has the same name as ours
// (NewTLS): most probably our job, on a host that was given another secret.
var ErrSameName = fmt.Errorf("%w, for a job of the same name", ErrOtherSecret)

// TLS secures connections with TLS 1.3 and keys that both ends derive from a shared
// secret, without certificate files or authorities. The accepting end authenticates
// itself first, and each end refuses any key but the expected one before application
// data is sent.
type TLS struct{ server, client *tls.Config }

// NewTLS derives the keys. Ends with different labels refuse each other. name is the
// name of the job and does not authenticate it: certificates contain a hash of it, so
// that an end with another secret can return ErrSameName. It may be "".
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

// tagOf is the hash of a job's name in certificates.
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

// commonName identifies the purpose of a certificate. It authenticates nothing: a
// peer with this name and another key has another secret, or pretends to.
func commonName(label string) string { return "trainctl " + label }

func config(mine tls.Certificate, theirs ed25519.PublicKey, label, tag string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{mine}, ClientAuth: tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // of a chain of signatures; the key itself is compared
		VerifyConnection: func(s tls.ConnectionState) error {
			switch shown := s.PeerCertificates; {
			case len(shown) != 1:
				return ErrUnauthenticated
			case theirs.Equal(shown[0].PublicKey):
				return nil
			case shown[0].Subject.CommonName != commonName(label):
				return ErrUnauthenticated
			case tag != "" && shown[0].Subject.SerialNumber == tag:
				return ErrSameName
			}
			return ErrOtherSecret
		},
		SessionTicketsDisabled: true,
	}
}
