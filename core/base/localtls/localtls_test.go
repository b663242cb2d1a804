package localtls

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"testing"
)

// A host and its plugin talk to each other, with keys on P-256: gRPC for Python and C++ verifies no P-521.
func TestHostAndPlugin(t *testing.T) {
	client, server := pair(t)
	state, err := connect(t, client, server)
	if err != nil {
		t.Fatal(err)
	}
	for side, c := range map[string]*tls.Config{"host": client, "plugin": server} {
		leaf, err := x509.ParseCertificate(c.Certificates[0].Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		if key, ok := leaf.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
			t.Errorf("the key of the %s is %T", side, leaf.PublicKey)
		}
	}
	if len(state.PeerCertificates) != 1 {
		t.Errorf("the plugin showed %d certificates", len(state.PeerCertificates))
	}
}

// Each side accepts the other alone: not another host, no host without a certificate, and not another plugin.
func TestStrangersAreRefused(t *testing.T) {
	client, server := pair(t)
	other, _ := pair(t)
	other.RootCAs = client.RootCAs
	if _, err := connect(t, other, server); err == nil {
		t.Error("the plugin accepted another host")
	}
	none := client.Clone()
	none.Certificates = nil
	if _, err := connect(t, none, server); err == nil {
		t.Error("the plugin accepted a host without a certificate")
	}
	_, stranger := pair(t)
	stranger.ClientCAs = server.ClientCAs
	if _, err := connect(t, client, stranger); !errors.As(err, new(*tls.CertificateVerificationError)) {
		t.Errorf("with another plugin the host gets %v", err)
	}
	if _, _, err := Server([]byte("no certificate")); err == nil {
		t.Error("text without a certificate was accepted")
	}
}

// Plugins whose SDK leaves certificates to go-plugin have keys on P-521.
func TestPluginsWithP521AreAccepted(t *testing.T) {
	client, server := pair(t)
	leaf, err := x509.ParseCertificate(server.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf.SignatureAlgorithm, leaf.PublicKey = x509.ECDSAWithSHA512, key.Public()
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	server.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	client.RootCAs = pool(t, der)
	if _, err := connect(t, client, server); err != nil {
		t.Error(err)
	}
}

// pair is a host and its plugin after the handshake in which they exchange their certificates.
func pair(t *testing.T) (client, server *tls.Config) {
	t.Helper()
	text, client, err := Client()
	if err != nil {
		t.Fatal(err)
	}
	der, server, err := Server(text)
	if err != nil {
		t.Fatal(err)
	}
	client.RootCAs = pool(t, der)
	return client, server
}

func pool(t *testing.T, der []byte) *x509.CertPool {
	t.Helper()
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	p := x509.NewCertPool()
	p.AddCert(leaf)
	return p
}

// connect sends a byte each way, and returns what the client knows of the connection.
func connect(t *testing.T, client, server *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() { served <- echo(l) }()
	c, err := tls.Dial("tcp", l.Addr().String(), client)
	if err != nil {
		return tls.ConnectionState{}, errors.Join(err, <-served)
	}
	defer c.Close()
	if _, err = c.Write([]byte{7}); err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	return c.ConnectionState(), errors.Join(err, <-served)
}

func echo(l net.Listener) error {
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	b := make([]byte, 1)
	if _, err := c.Read(b); err != nil {
		return err
	}
	_, err = c.Write(b)
	return err
}
