package secret

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// OfHost is a secret that all processes of this user on this host can derive and
// other users cannot: it comes from a random file in the user's cache directory,
// which the first process creates. It is for ranks of one host that were not
// started by our launcher and were not given a secret. Different labels give
// different secrets.
func OfHost(label string) (Secret, error) {
	s, err := hostKey()
	if err != nil {
		return Secret{}, usererr.List{{Key: Env, Detail: fmt.Sprintf("the ranks of this host cannot share a secret: %v", err),
			Help: `fix: export ` + Env + `="$(trainctl secret)" before starting the ranks`}}.Err()
	}
	return s.Derive(label), nil
}

func hostKey() (Secret, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return Secret{}, err
	}
	dir := filepath.Join(cache, "trainctl")
	path := filepath.Join(dir, "host-key")
	s, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Secret{}, err
	}
	if err := makeKey(dir, path); err != nil {
		return Secret{}, err
	}
	return readKey(path)
}

// makeKey creates a key file at path atomically. It keeps a file that another
// process created first, since link(2) never replaces one.
func makeKey(dir, path string) error {
	f, err := os.CreateTemp(dir, "host-key-*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(New().Reveal())
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func readKey(path string) (Secret, error) {
	f, err := os.Open(path)
	if err != nil {
		return Secret{}, err
	}
	defer f.Close()
	text, err := private(f)
	if err != nil {
		return Secret{}, fmt.Errorf("%s %w", path, err)
	}
	return Parse(text)
}
