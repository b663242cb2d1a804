package etcd_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/job/etcd"
	"github.com/trainctl/trainctl/core/job/etcd/etcdtest"
)

// refused asserts that Connect fails at once with a message that has all parts.
func refused(t *testing.T, c etcd.Config, parts ...string) {
	t.Helper()
	refusedBy(patient(t), t, c, parts...)
}

// refusedInTime is refused for what Connect tries again until its context ends.
func refusedInTime(t *testing.T, c etcd.Config, parts ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	refusedBy(ctx, t, c, parts...)
}

func refusedBy(ctx context.Context, t *testing.T, c etcd.Config, parts ...string) {
	t.Helper()
	c.Secret = jobSecret
	j, err := etcd.Connect(ctx, c, "it", time.Second, nil)
	if err == nil {
		j.Close(false)
		t.Fatalf("%+v connects", c)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%q is not in: %v", p, err)
		}
	}
	if c.Password != "" && strings.Contains(err.Error(), c.Password) {
		t.Errorf("the password is in: %v", err)
	}
}

func TestUnreachableEtcd(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{})
	s.Kill(t)
	refusedInTime(t, etcd.Config{Endpoints: []string{s.Addr}}, "launch.rdzv_endpoint", s.Addr, "refused", "running etcd")
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ours, other := etcdtest.NewAuthority(t), etcdtest.NewAuthority(t)
	s := etcdtest.Start(t, etcdtest.Options{TLS: ours})
	cert, key := ours.Issue(t, "client", "")
	foreign, foreignKey := other.Issue(t, "foreign", "")
	good := etcd.Config{Endpoints: []string{s.Addr}, CAFile: ours.File, CertFile: cert, KeyFile: key, Secret: jobSecret}
	j, err := etcd.Connect(patient(t), good, "it", time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(true); err != nil {
		t.Error(err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(c *etcd.Config)
		parts  []string
	}{
		{func(c *etcd.Config) { c.CAFile = other.File }, []string{"launch.rdzv_ca_file", s.Addr, "unknown authority"}},
		{func(c *etcd.Config) { c.CAFile = empty }, []string{"launch.rdzv_ca_file", empty, "no PEM certificate"}},
		{func(c *etcd.Config) { c.CAFile = "nowhere" }, []string{"launch.rdzv_ca_file", "nowhere"}},
		{func(c *etcd.Config) { c.CertFile, c.KeyFile = "", "" }, []string{"launch.rdzv_cert_file", s.Addr, "refuses this client"}},
		{func(c *etcd.Config) { c.CertFile, c.KeyFile = foreign, foreignKey }, []string{"launch.rdzv_cert_file", s.Addr, "refuses this client"}},
		{func(c *etcd.Config) { c.KeyFile = foreignKey }, []string{"launch.rdzv_cert_file", "private key"}},
	} {
		bad := good
		bad.Endpoints = append([]string{}, good.Endpoints...)
		c.change(&bad)
		refused(t, bad, c.parts...)
	}
	refusedInTime(t, etcd.Config{Endpoints: []string{"http://" + s.Addr}}, "launch.rdzv_endpoint", s.Addr)
	// One with https:// is enough.
	refusedInTime(t, etcd.Config{Endpoints: []string{"http://127.0.0.1:1", "https://" + s.Addr}}, "launch.rdzv_ca_file", s.Addr)
	plain := etcdtest.Start(t, etcdtest.Options{})
	refused(t, etcd.Config{Endpoints: []string{plain.Addr}, CAFile: ours.File}, "launch.rdzv_endpoint", "does not use TLS", "http://")
}

// A server that ends a TLS handshake because it is being stopped does not look like one without TLS.
func TestServerThatStopsDuringTheHandshake(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			io.ReadFull(c, make([]byte, 100)) // unread bytes would make Close reset the connection
			c.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	ours := etcdtest.NewAuthority(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err = etcd.Connect(ctx, etcd.Config{Endpoints: []string{l.Addr().String()}, CAFile: ours.File, Secret: jobSecret}, "it", time.Second, nil)
	if err == nil || strings.Contains(err.Error(), "does not use TLS") || !strings.Contains(err.Error(), "EOF") {
		t.Errorf("got %v", err)
	}
}

// What a server cannot store is refused at once, with what to do.
func TestValuesThatEtcdCannotStore(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Options{Args: []string{"--quota-backend-bytes", "4000000"}})
	j := connect(t, s)
	for size, want := range map[int]string{1800 << 10: "--max-request-bytes", 3 << 20: "--max-request-bytes"} {
		if err := j.Set(patient(t), "large", make([]byte, size)); usererr.Problems(err) == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	var err error
	for i := 0; err == nil && i < 100; i++ {
		err = j.Set(patient(t), "k", make([]byte, 1<<20))
	}
	if usererr.Problems(err) == nil {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{s.Addr, "alarm NOSPACE", "etcdctl compact", "--quota-backend-bytes", "etcdctl alarm disarm"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
}

// administered is a server with the user root and one who may do nothing.
func administered(t *testing.T) *etcdtest.Server {
	t.Helper()
	s := etcdtest.Start(t, etcdtest.Options{})
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := patient(t)
	for _, user := range []string{"root", "guest"} {
		if _, err := c.UserAdd(ctx, user, "right"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.UserGrantRole(ctx, "root", "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AuthEnable(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestUsers(t *testing.T) {
	t.Parallel()
	s := administered(t)
	to := []string{s.Addr}
	j, err := etcd.Connect(patient(t), etcd.Config{Endpoints: to, User: "root", Password: "right", Secret: jobSecret}, "it", time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := j.Register(patient(t), 1, "host", nobody); n != 0 || err != nil {
		t.Error(n, err)
	}
	if err := j.Close(true); err != nil {
		t.Error(err)
	}
	refused(t, etcd.Config{Endpoints: to, User: "root", Password: "wrong-one"}, "launch.rdzv_user", s.Addr, `"root"`, "TRAINCTL_RDZV_PASSWORD", "launch.rdzv_password_file")
	refused(t, etcd.Config{Endpoints: to}, "launch.rdzv_user", s.Addr, "requires a user")
	refused(t, etcd.Config{Endpoints: to, User: "guest", Password: "right"}, "launch.rdzv_user", `"guest"`, "/trainctl/", "grant-permission")
}
