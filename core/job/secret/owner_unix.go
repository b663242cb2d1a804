//go:build unix

package secret

import (
	"io/fs"
	"os"
	"syscall"
)

// ours reports whether a file is this user's, or root's, who can read all of them.
func ours(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || stat.Uid == 0 || int(stat.Uid) == os.Getuid()
}
