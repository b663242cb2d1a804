package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/trainctl/trainctl/core/sdk/pb"
)

// socketHome is where sockets go: the directory for temporary files, unless its
// path is so long that a socket's would not fit into the 104 bytes that systems
// have for it (batch systems make such directories).
func socketHome(tmp string) string {
	const name = "/" + pb.SocketDirPrefix + "4194304-1234567890/plugin-dir1234567890/plugin1234567890"
	if len(tmp)+len(name) < 104 {
		return tmp
	}
	return "/tmp"
}

// NewSocketDir makes a directory for Options.SocketDir of all ranks that this
// process starts. The caller removes it when they are gone, with what those
// that were killed have left in it. What launchers have left that were killed
// themselves is removed here.
func NewSocketDir() (string, error) {
	home := socketHome(os.TempDir())
	stale, _ := filepath.Glob(filepath.Join(home, pb.SocketDirPrefix+"*")) // the pattern is sound
	for _, dir := range stale {
		if owner := ownerOf(dir); owner > 0 && errors.Is(syscall.Kill(owner, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir) // somebody else's, or gone meanwhile
		}
	}
	return os.MkdirTemp(home, fmt.Sprintf("%s%d-", pb.SocketDirPrefix, os.Getpid()))
}

// ownerOf is the process that a socket directory is named after, 0 if none.
func ownerOf(dir string) int {
	pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), pb.SocketDirPrefix), "-")
	n, err := strconv.Atoi(pid)
	if err != nil {
		return 0
	}
	return n
}
