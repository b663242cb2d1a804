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
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/plugin/sandbox"
	"github.com/trainctl/trainctl/core/sdk"
	"golang.org/x/sys/unix"
)

// A plugin has open what docs/protocol.md names and nothing else, whatever this
// process has, and has forgotten to close on exec: a terminal or a file of the
// shell, the pipes of a rank, what a library of the GPU left open.
func TestAPluginHasOpenWhatTheProtocolNames(t *testing.T) {
	stray, err := syscall.Open(os.DevNull, syscall.O_RDWR, 0)
	must(t, err)
	defer syscall.Close(stray)
	var pipe [2]int
	must(t, syscall.Pipe(pipe[:]))
	defer syscall.Close(pipe[0])
	defer syscall.Close(pipe[1])

	path := script(t, "exec >&2\nls -l /proc/$$/fd\nexit 1")
	for name, o := range map[string]host.Options{"plain": {}, "with a checksum": {Terms: sum(path, host.Sum(t, path))}} {
		_, err := newHost(t, o).StartBackend(t.Context(), path)
		var failed *host.StartError
		if !errors.As(err, &failed) {
			t.Fatalf("%s: %v", name, err)
		}
		want := map[string]string{"0": os.DevNull, "1": "pipe:", "2": "pipe:", "3": "socket:"}
		if o.Terms != nil {
			want["4"] = path
		}
		for _, line := range failed.LastLines {
			head, to, is := strings.Cut(line, " -> ")
			if !is {
				continue
			}
			fields := strings.Fields(head)
			fd := fields[len(fields)-1]
			expected, named := want[fd]
			delete(want, fd)
			if named && !strings.HasPrefix(to, expected) || !named && to != path { // the shell reads the script
				t.Errorf("%s: the plugin has descriptor %s open: %s", name, fd, to)
			}
		}
		if len(want) > 0 {
			t.Errorf("%s: missing %v in %q", name, want, failed.LastLines)
		}
	}
}

// A plugin in a sandbox that hangs says where, as any other does.
func TestHungPluginInASandbox(t *testing.T) {
	if v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); errno != 0 || v < 4 {
		t.Skip("this kernel has no Landlock of Linux 6.7 or newer: ", errno)
	}
	host.SetMargin(t, 100*time.Millisecond)
	exe, err := os.Executable()
	must(t, err)
	path := script(t, "exec "+exe+" plugin dataset fake")
	d := openFake(t, newHost(t, host.Options{}).WithTerms(map[host.Key]host.Terms{{Kind: sdk.KindDataset, Plugin: path}: {Sandbox: &sandbox.Rules{Strict: true, Read: []string{exe}}}}), path, "deaf", 2*time.Second)
	must(t, d.Request(0, sdk.Train, 0, 1, []int64{7}))
	_, _, err = d.Wait(0)
	var failed *host.PluginError
	if !errors.As(err, &failed) || !errors.Is(err, host.ErrHung) {
		t.Fatalf("got %v", err)
	}
	if !slices.ContainsFunc(failed.Stack, func(f string) bool {
		return strings.Contains(f, "(*fakeDataset).Fill at core/plugin/host_test/host_test.go:")
	}) {
		t.Errorf("the stack does not say where it hangs: %q\n%v", failed.Stack, err)
	}
}

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
	if want := "its sandbox refused the network"; err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "set network = true in its table") {
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
