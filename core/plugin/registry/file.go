package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// IsPath reports whether the plugin's name in the TOML is a path.
func IsPath(plugin string) bool { return strings.ContainsRune(plugin, '/') }

// Problem is the reason why a file cannot be used as a plugin.
type Problem struct {
	Text string
	Help string // what to do, or ""
	Err  error  // the cause; may be nil
}

func (p *Problem) Error() string {
	if p.Help == "" {
		return p.Text
	}
	return p.Text + "; " + p.Help
}

func (p *Problem) Unwrap() error { return p.Err }

// Check returns why the file at a path cannot be executed, nil if no reason is known.
// The error is a *Problem.
func Check(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Problem{"no such file", "build the plugin or correct the path, which is relative to the working directory", err}
	case err != nil:
		return &Problem{err.Error(), "", err}
	case info.IsDir():
		return &Problem{"it is a directory", "give the path of the executable in it", nil}
	case info.Mode()&0o111 == 0:
		return &Problem{"the file is not executable", "chmod +x " + usererr.Shell(path), nil}
	}
	return nil
}

// Sum returns the SHA-256 sum of a file in hexadecimal. It calls pause, unless nil, after every 256 KiB, for callers
// that leave the processor to others in between.
func Sum(path string, pause func()) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if pause == nil {
		pause = func() {}
	}
	sum, err := digest(paused{f, pause})
	return hex.EncodeToString(sum[:]), err
}

// paused is a reader that calls after every 256 KiB.
type paused struct {
	io.Reader
	pause func()
}

// WriteTo is what io.Copy calls.
func (p paused) WriteTo(w io.Writer) (total int64, err error) {
	const part = 256 << 10
	for {
		n, err := io.CopyN(w, p.Reader, part)
		total += n
		switch {
		case errors.Is(err, io.EOF):
			return total, nil
		case err != nil:
			return total, err
		}
		p.pause()
	}
}

// Open opens an executable and verifies its SHA-256 sum, in hexadecimal. The caller
// executes this open file, so that it cannot be replaced in between. The error is a
// *Problem.
func Open(path, sum string) (*os.File, error) {
	f, err := open(path, sum)
	if err != nil {
		return nil, &Problem{err.Error(), "if this file is the right one, write its sum with trainctl plugins lock CONFIG", err}
	}
	return f, nil
}

func open(path, text string) (*os.File, error) {
	want, err := ParseSum(text)
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

func digest(r io.Reader) (sum [sha256.Size]byte, err error) {
	hash := sha256.New()
	_, err = io.Copy(hash, r)
	hash.Sum(sum[:0])
	return sum, err
}

// ParseSum parses a SHA-256 sum in hexadecimal.
func ParseSum(text string) (sum [sha256.Size]byte, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(sum) {
		return sum, fmt.Errorf("%q is not a SHA-256 sum: expected %d hexadecimal digits", text, 2*len(sum))
	}
	return [sha256.Size]byte(b), nil
}
