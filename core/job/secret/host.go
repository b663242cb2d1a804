package secret

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// OfHost is a secret that all processes of this user on this host can work out
// and other users cannot: it derives from a random file in the user's cache
// directory, made by whoever comes first. It is for ranks of one host that
// something else than our launcher starts, and that nobody gave a secret.
// label keeps jobs apart.
func OfHost(label string) (Secret, error) {
	s, err := hostKey()
	if err != nil {
		return Secret{}, usererr.List{{Key: Env, Detail: fmt.Sprintf("the ranks of this host have no secret in common: %v", err),
			Help: `fix: export ` + Env + `="$(trainctl secret)" before the ranks are started`}}.Err()
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

// makeKey puts a key at path whole, or leaves the one that another process put
// there first: link(2) never replaces a file.
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
