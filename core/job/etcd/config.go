package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/job/secret"
)

// Config says how to reach etcd.
type Config struct {
	Endpoints []string // "host:port", or a URL; all use TLS if one has https:// or a file is given
	CAFile    string   // PEM certificates of the authorities that sign etcd's; "": the system's
	CertFile  string   // this client's; "": none
	KeyFile   string   // of CertFile
	User      string   // "": none
	Password  string   // never logged

	Secret secret.Secret // of the job, which signs what it keeps in etcd; required
}

// Exposed reports whether the password crosses the network as plain text.
func (c Config) Exposed() bool { return c.Password != "" && !c.secure() }

// secure reports whether connections use TLS.
func (c Config) secure() bool {
	return c.CAFile != "" || c.CertFile != "" || slices.ContainsFunc(c.Endpoints, func(e string) bool { return strings.HasPrefix(e, "https://") })
}

// address is the "host:port" of an endpoint.
func address(endpoint string) string {
	if u, err := url.Parse(endpoint); err == nil && u.Host != "" {
		return u.Host
	}
	return endpoint
}

// tls is the configuration of connections, nil without TLS.
func (c Config) tls() (*tls.Config, error) {
	if !c.secure() {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, mistake("rdzv_ca_file", "a file with PEM certificates", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, mistake("rdzv_ca_file", "a file with PEM certificates", fmt.Errorf("%s has no PEM certificate", c.CAFile))
		}
	}
	if c.CertFile != "" || c.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, mistake("rdzv_cert_file", "a PEM certificate, and its key in launch.rdzv_key_file", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// mistake is an error of the user about a key of [launch].
func mistake(key, help string, err error) error {
	return usererr.List{{Key: "launch." + key, Detail: err.Error(), Help: help}}.Err()
}

// reach connects to an endpoint, because the errors of the client do not say why it cannot.
func (c Config) reach(ctx context.Context, endpoint string, t *tls.Config) error {
	d := dialer{net.Dialer{Timeout: dialTime}}
	at := address(endpoint)
	raw, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return fmt.Errorf("etcd at %s does not answer: %w", at, err)
	}
	defer raw.Close()
	if t == nil {
		return nil
	}
	t = t.Clone()
	t.ServerName, _, _ = net.SplitHostPort(at)
	t.NextProtos = []string{"h2"}
	conn := tls.Client(raw, t)
	raw.SetDeadline(time.Now().Add(dialTime))
	if err := conn.HandshakeContext(ctx); errors.Is(err, io.EOF) && d.plain(ctx, at) {
		return withoutTLS(at)
	} else if err != nil {
		return explainTLS(at, err)
	}
	raw.SetReadDeadline(time.Now().Add(alertTime))
	if _, err := conn.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) { // with TLS 1.3 a server refuses a certificate after the handshake
		return explainTLS(at, err)
	}
	return nil
}

// plain reports whether a server that has closed a connection instead of a TLS handshake speaks HTTP
// without TLS. If it does not, it may just have been stopped.
func (d dialer) plain(ctx context.Context, at string) bool {
	c, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(dialTime))
	answer := make([]byte, len("HTTP/"))
	_, err = io.WriteString(c, "GET /version HTTP/1.0\r\n\r\n")
	if err == nil {
		_, err = io.ReadFull(c, answer)
	}
	return err == nil && string(answer) == "HTTP/"
}

type dialer struct{ net.Dialer }

const (
	dialTime  = 5 * time.Second
	alertTime = 250 * time.Millisecond
)

// explainTLS names the key to change.
func explainTLS(at string, err error) error {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var alert tls.AlertError
	switch text := err.Error(); {
	case errors.As(err, &unknown):
		return mistake("rdzv_ca_file", "the file with the certificate of the authority that signed etcd's", fmt.Errorf("etcd at %s: %w", at, err))
	case errors.As(err, new(x509.CertificateInvalidError)): // it has expired, for example
		return mistake("rdzv_endpoint", "renew etcd's certificate, or correct this host's clock", fmt.Errorf("etcd at %s: %w", at, err))
	case errors.As(err, &name):
		return mistake("rdzv_endpoint", "use a host name of etcd's certificate", fmt.Errorf("etcd at %s: %w", at, err))
	case errors.As(err, &alert), strings.Contains(text, "remote error"):
		return mistake("rdzv_cert_file", "a certificate that etcd's authority signed, and launch.rdzv_key_file its key", fmt.Errorf("etcd at %s refuses this client: %w", at, err))
	case strings.Contains(text, "does not look like a TLS handshake"):
		return withoutTLS(at)
	}
	return fmt.Errorf("etcd at %s: %w", at, err)
}

func withoutTLS(at string) error {
	return mistake("rdzv_endpoint", "write http:// before the address, and remove launch.rdzv_ca_file", fmt.Errorf("etcd at %s does not use TLS", at))
}

// explain names the key to change where a request fails for good; other errors may pass.
func explain(c Config, err error) (explained error, final bool) {
	at := address(c.Endpoints[0])
	switch known := rpctypes.Error(err); {
	case errors.Is(known, rpctypes.ErrAuthFailed):
		return mistake("rdzv_user", "correct it, or the password (TRAINCTL_RDZV_PASSWORD, launch.rdzv_password_file)", fmt.Errorf("etcd at %s does not accept user %q with this password", at, c.User)), true
	case errors.Is(known, rpctypes.ErrUserEmpty):
		return mistake("rdzv_user", "the name of an etcd user; TRAINCTL_RDZV_PASSWORD is the password", fmt.Errorf("etcd at %s requires a user", at)), true
	case errors.Is(known, rpctypes.ErrPermissionDenied):
		return mistake("rdzv_user", fmt.Sprintf("etcdctl role grant-permission ROLE --prefix=true readwrite %s", root), fmt.Errorf("user %q may not write below %s in etcd at %s", c.User, root, at)), true
	case errors.Is(known, rpctypes.ErrNoSpace):
		return mistake("rdzv_endpoint", `free space with "etcdctl compact REVISION" and "etcdctl defrag", or start etcd with a larger --quota-backend-bytes, and then end the alarm with "etcdctl alarm disarm"`,
			fmt.Errorf("etcd at %s stores nothing, because its database has reached its quota (alarm NOSPACE)", at)), true
	case errors.Is(known, rpctypes.ErrCorrupt):
		return mistake("rdzv_endpoint", `replace the member that "etcdctl alarm list" names, and then end the alarm with "etcdctl alarm disarm"`,
			fmt.Errorf("etcd at %s stores nothing, because the data of a member is damaged (alarm CORRUPT)", at)), true
	case errors.Is(known, rpctypes.ErrRequestTooLarge), strings.Contains(err.Error(), "larger than max"): // of the server; of the client
		return mistake("rdzv_endpoint", "start etcd with a larger --max-request-bytes (its default is 1.5 MiB, and trainctl sends at most 2 MiB)", fmt.Errorf("etcd at %s does not store values of this size: %w", at, err)), true
	}
	return fmt.Errorf("etcd at %s: %w", at, err), false
}
