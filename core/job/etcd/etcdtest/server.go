package etcdtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Server is an etcd server of one member.
type Server struct {
	Addr string // host:port for clients

	args    []string
	command func(program string, args ...string) *exec.Cmd
	cmd     *exec.Cmd
	log     *strings.Builder
	ended   chan struct{}
}

// Options say how to start a server. The zero value is one without TLS on the loopback.
type Options struct {
	Host    string                                         // "": 127.0.0.1
	Command func(program string, args ...string) *exec.Cmd // nil: exec.Command
	TLS     *Authority                                     // nil: off
	Args    []string                                       // of etcd, after those of the test
}

// Start starts a server that ends with the test. It skips the test where etcd is not installed.
func Start(t *testing.T, o Options) *Server {
	t.Helper()
	if _, err := exec.LookPath("etcd"); err != nil {
		t.Skip("etcd is not installed (Debian's package etcd-server)")
	}
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	s := &Server{command: o.Command}
	if s.command == nil {
		s.command = exec.Command
	}
	client, peer := "2379", "2380"
	if o.Command == nil {
		client, peer = freePort(t), freePort(t)
	}
	scheme := "http://"
	if o.TLS != nil {
		scheme = "https://"
		cert, key := o.TLS.Issue(t, "server", o.Host)
		s.args = []string{"--cert-file", cert, "--key-file", key, "--trusted-ca-file", o.TLS.File, "--client-cert-auth"}
	}
	s.Addr = net.JoinHostPort(o.Host, client)
	peers := "http://" + net.JoinHostPort(o.Host, peer)
	s.args = append(s.args, "--name", "it", "--data-dir", filepath.Join(t.TempDir(), "data"), "--logger", "zap",
		"--listen-client-urls", scheme+s.Addr, "--advertise-client-urls", scheme+s.Addr,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "it="+peers)
	s.args = append(s.args, o.Args...)
	s.Start(t)
	t.Cleanup(func() { s.Kill(t) })
	return s
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// Start starts a server that was killed again, with the same data, and waits until it is ready.
func (s *Server) Start(t *testing.T) {
	t.Helper()
	s.cmd = s.command("etcd", s.args...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stdout, s.cmd.Stderr = w, w
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	ready := make(chan struct{})
	s.ended, s.log = make(chan struct{}), &strings.Builder{}
	go s.read(r, ready)
	select {
	case <-ready:
	case <-s.ended:
		t.Fatalf("etcd ended:\n%s", s.log)
	case <-time.After(time.Minute):
		t.Fatal("etcd is not ready after a minute")
	}
}

// read reads the log until the server ends.
func (s *Server) read(r io.ReadCloser, ready chan<- struct{}) {
	defer close(s.ended)
	defer r.Close()
	told := false
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if !told {
			s.log.WriteString(lines.Text() + "\n")
		}
		if !told && (strings.Contains(lines.Text(), "client traffic") || strings.Contains(lines.Text(), "ready to serve")) {
			told = true
			close(ready)
		}
	}
}

// Kill kills the server, as a loss of power does.
func (s *Server) Kill(t *testing.T) {
	t.Helper()
	s.Signal(t, syscall.SIGKILL)
	<-s.ended
	_ = s.cmd.Wait() // killed
}

// Signal signals the server.
func (s *Server) Signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(-s.cmd.Process.Pid, sig); err != nil && err != syscall.ESRCH {
		t.Error(err)
	}
	for sig == syscall.SIGSTOP && !s.stopped() { // the signal takes effect when each thread next runs
		time.Sleep(time.Millisecond)
	}
}

// stopped reports whether all threads of the server are stopped, as far as the system shows.
func (s *Server) stopped() bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.cmd.Process.Pid))
	return !slices.ContainsFunc(threads, func(path string) bool {
		text, err := os.ReadFile(path)
		_, state, _ := strings.Cut(string(text), ") ")
		return err == nil && !strings.HasPrefix(state, "T")
	})
}
