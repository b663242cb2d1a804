package secret

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// readFile reads launch.secret_file. Like ssh with its keys, it refuses a file that
// its group or others may read or write.
func readFile(path string) (Secret, error) {
	const key = "launch.secret_file"
	f, err := os.Open(path)
	if err != nil {
		return Secret{}, usererr.List{{Key: key, Detail: err.Error(), Help: `fix: (umask 077; trainctl secret > FILE) creates one`}}.Err()
	}
	defer f.Close()
	text, err := private(f)
	if err != nil {
		return Secret{}, usererr.List{{Key: key, Detail: fmt.Sprintf("%s %v", path, err), Help: "fix: chmod 600 " + path}}.Err()
	}
	s, err := Parse(text)
	if err != nil {
		return Secret{}, unusable(key, fmt.Errorf("%s: %w", path, err))
	}
	return s, nil
}

// private reads a file that only its owner may access.
func private(f *os.File) (string, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errors.New("is not a regular file")
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("has mode %#o: users other than its owner can access it", info.Mode().Perm())
	case !ours(info):
		return "", errors.New("belongs to another user")
	}
	b, err := io.ReadAll(io.LimitReader(f, longest+2))
	return string(b), err
}
