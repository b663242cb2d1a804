package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/trainctl/trainctl/core/sdk"
)

// Checksum returns the SHA-256 sum in hexadecimal of the plugin at a path. The
// plugin is not executed. The error is a *StartError.
func Checksum(kind sdk.Kind, path string) (string, error) {
	if failed := executable(kind, path); failed != nil {
		return "", failed
	}
	f, err := os.Open(path)
	if err != nil {
		return "", &StartError{Kind: kind, Name: path, Problem: err.Error(), Err: err}
	}
	defer f.Close()
	sum, err := digest(f)
	if err != nil {
		return "", &StartError{Kind: kind, Name: path, Problem: err.Error(), Err: err}
	}
	return hex.EncodeToString(sum[:]), nil
}

// Executable returns the absolute path of the executable of a plugin as named in the
// TOML. For a built-in plugin it is the host's own.
func (h *Host) Executable(name string) (string, error) {
	if IsPath(name) {
		return filepath.Abs(name)
	}
	exe, err := h.exe()
	if err != nil {
		return "", err
	}
	return filepath.Abs(exe)
}

// Sum returns the SHA-256 sum in hexadecimal of [Host.Executable]: the sum that was
// verified before it was executed, or that of the file now.
func (h *Host) Sum(name string) (string, error) {
	if sum := h.opts.Checksums[name]; sum != "" {
		return strings.ToLower(sum), nil
	}
	path, err := h.Executable(name)
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	got, err := digest(f)
	return hex.EncodeToString(got[:]), err
}

// WithChecksums returns a host with additional checksums, see Options.Checksums.
func (h *Host) WithChecksums(sums map[string]string) *Host {
	o := h.opts
	o.Checksums = map[string]string{}
	maps.Copy(o.Checksums, h.opts.Checksums)
	maps.Copy(o.Checksums, sums)
	return &Host{opts: o}
}

func digest(r io.Reader) (sum [sha256.Size]byte, err error) {
	hash := sha256.New()
	_, err = io.Copy(hash, r)
	hash.Sum(sum[:0])
	return sum, err
}

func parseSum(text string) (sum [sha256.Size]byte, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(sum) {
		return sum, fmt.Errorf("%q is not a SHA-256 sum: expected %d hexadecimal digits", text, 2*len(sum))
	}
	return [sha256.Size]byte(b), nil
}

// verified opens a file and checks its SHA-256 sum. This open file is executed
// later, so that the file cannot be replaced in between.
func verified(path, text string) (*os.File, error) {
	want, err := parseSum(text)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	got, err := digest(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if got != want {
		return nil, errors.Join(fmt.Errorf("its SHA-256 sum is %x, expected %x", got, want), f.Close())
	}
	return f, nil
}
