//go:build !portable

package host_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/host"
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
	for name, o := range map[string]host.Options{"plain": {}, "with a checksum": {Checksums: map[string]string{path: host.Sum(t, path)}}} {
		_, err := newHost(t, o).StartBackend(t.Context(), path)
		var failed *host.StartError
		if !errors.As(err, &failed) {
			t.Fatalf("%s: %v", name, err)
		}
		want := map[string]string{"0": os.DevNull, "1": "pipe:", "2": "pipe:", "3": "socket:"}
		if o.Checksums != nil {
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
