//go:build !portable

package host_test

import (
	"errors"
	"os"
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
