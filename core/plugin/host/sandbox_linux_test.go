//go:build !portable

package host_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/plugin/sandbox"
	"github.com/trainctl/trainctl/core/sdk"
)

// inSandbox starts a data set whose program is a line of shell before the fake one.
func inSandbox(t *testing.T, line string, rules sandbox.Rules) error {
	t.Helper()
	if err := sandbox.Supported(); err != nil {
		t.Skipf("this kernel cannot sandbox a plugin: %v", err)
	}
	exe, err := os.Executable()
	must(t, err)
	path := script(t, line+"\nexec "+exe+" plugin dataset fake")
	h := newHost(t, host.Options{}).WithTerms(map[host.Key]host.Terms{{Kind: sdk.KindDataset, Plugin: path}: {Sandbox: &rules}})
	_, err = h.Probe(t.Context(), sdk.KindDataset, path)
	return err
}

// A plugin reads everything and writes where its rules allow; a refused write is named.
func TestWritesInASandbox(t *testing.T) {
	mine, other := t.TempDir(), t.TempDir()
	rules := sandbox.Rules{Write: []string{mine}}
	must(t, inSandbox(t, fmt.Sprintf("ls %s >&2 || exit 1; echo x > %s/kept; echo x > %s/planted", other, mine, other), rules))
	if _, err := os.Stat(filepath.Join(mine, "kept")); err != nil {
		t.Error("what it may write is not there: ", err)
	}
	planted := filepath.Join(other, "planted")
	if _, err := os.Stat(planted); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s was written: %v", planted, err)
	}
	err := inSandbox(t, fmt.Sprintf("echo x > %s || exit 1", planted), rules)
	for _, want := range []string{"its sandbox has probably refused " + planted, "it writes " + mine, "it has no network", `set plugins.sandbox = "off"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// A plugin reaches other hosts only if its rules say so.
func TestNetworkInASandbox(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	line := fmt.Sprintf("bash -c 'exec 5<>/dev/tcp/127.0.0.1/%d' || exit 1", l.Addr().(*net.TCPAddr).Port)
	must(t, inSandbox(t, line, sandbox.Rules{Network: true}))
	err = inSandbox(t, line, sandbox.Rules{})
	if want := "its sandbox refused the network"; err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "set dataset.network = true") {
		t.Errorf("want %q, got %v", want, err)
	}
}

// A strict sandbox reaches no service of this host through a unix socket.
func TestUnixSocketsInAStrictSandbox(t *testing.T) {
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skipf("perl, which opens the sockets: %v", err)
	}
	service := filepath.Join(t.TempDir(), "service")
	l, err := net.Listen("unix", service)
	must(t, err)
	defer l.Close()
	exe, err := os.Executable()
	must(t, err)
	for _, open := range []string{
		fmt.Sprintf(`socket(S, AF_UNIX, SOCK_STREAM, 0) and connect(S, sockaddr_un("%s"))`, service), "socket(D, AF_UNIX, SOCK_DGRAM, 0)",
	} {
		line := fmt.Sprintf("perl -MSocket -e 'exit(%s ? 7 : 0)' || exit 1", open)
		must(t, inSandbox(t, line, sandbox.Rules{Strict: true, Read: []string{exe}}))
		if err := inSandbox(t, line, sandbox.Rules{}); err == nil {
			t.Errorf("without a strict sandbox, %s fails too", open)
		}
	}
}
