package install

import "golang.org/x/sys/unix"

// exchange swaps two folders of a file system in one step.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
