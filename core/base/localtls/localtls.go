package localtls

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"time"
)

// hostName is what both certificates are for.
const hostName = "localhost"

// Client is the host's side. It returns the host's certificate as PEM, for the plugin, and a configuration that
// lacks the plugin's certificate: it is to be the only one in RootCAs.
func Client() (text []byte, config *tls.Config, err error) {
	own, err := certificate()
	if err != nil {
		return nil, nil, err
	}
	config = &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12, ServerName: hostName}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}), config, nil
}

// Server is the plugin's side, for the host whose certificate is given as PEM. It returns the plugin's certificate as
// DER, for the host.
func Server(host []byte) (der []byte, config *tls.Config, err error) {
	hosts := x509.NewCertPool()
	if !hosts.AppendCertsFromPEM(host) {
		return nil, nil, errors.New("the host's certificate is not in PEM format")
	}
	own, err := certificate()
	if err != nil {
		return nil, nil, err
	}
	config = &tls.Config{
		Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12, ServerName: hostName,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: hosts, RootCAs: hosts,
	}
	return own.Certificate[0], config, nil
}

// certificate makes a key and a certificate that it signs itself. The curve is P-256 and not P-521, which go-plugin
// takes by default: BoringSSL, and therefore gRPC for Python and C++, does not verify P-521, and crypto/ecdsa builds
// 0.4 MB of tables for it in each process, where those of P-256 are part of the executable.
func certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: hostName, Organization: []string{"trainctl"}}, DNSNames: []string{hostName},
		SerialNumber: serial, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(30, 0, 0),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageKeyAgreement | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IsCA:        true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
