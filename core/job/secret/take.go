package secret

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// EnvFD is the environment variable with the descriptor from which a rank reads the
// secret that its launcher passes to it.
const EnvFD = "TRAINCTL_SECRET_FD"

// Given is the secret that this process was started with.
type Given struct {
	Secret Secret // zero: none was given
	Source string // the variable that gave it
	Err    error  // why it cannot be used; a mistake of the user

	// Exposed is why the secret could not be removed from the environment that the
	// kernel shows of this process, nil if it was.
	Exposed error
}

// Take returns the secret that this process was started with. Call it at the
// beginning of main, before any child is started: the first call removes the secret
// from the environment that children inherit and from the memory that
// /proc/PID/environ shows.
func Take() Given { return take() }

var take = sync.OnceValue(func() Given {
	g := fromEnv()
	if _, set := os.LookupEnv(EnvFD); set {
		g = fromFD()
	}
	os.Unsetenv(EnvFD)
	return g
})

func fromEnv() Given {
	text, set := os.LookupEnv(Env)
	if !set {
		return Given{}
	}
	os.Unsetenv(Env)
	g := Given{Source: Env, Exposed: scrub(Env)}
	if text == "" {
		return Given{}
	}
	var err error
	if g.Secret, err = Parse(text); err != nil {
		g.Err = unusable(Env, err)
	}
	return g
}

func fromFD() Given {
	g := Given{Source: EnvFD}
	fd, err := strconv.Atoi(os.Getenv(EnvFD))
	if err != nil || fd < 3 {
		g.Err = fmt.Errorf("%s is %q, not a descriptor", EnvFD, os.Getenv(EnvFD))
		return g
	}
	syscall.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "secret")
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, longest+1))
	if err == nil {
		g.Secret, err = Parse(string(text))
	}
	if err != nil {
		g.Err = fmt.Errorf("the secret from the launcher: %w", err)
	}
	return g
}

// EnvRdzvPassword is the environment variable with the password for the rendezvous in etcd.
const EnvRdzvPassword = "TRAINCTL_RDZV_PASSWORD"

// TakeRdzvPassword returns the password in the environment, and removes it there as Take removes the
// secret. "" is none. Call it at the beginning of main.
func TakeRdzvPassword() string { return takeRdzvPassword() }

var takeRdzvPassword = sync.OnceValue(func() string {
	text, set := os.LookupEnv(EnvRdzvPassword)
	if set {
		os.Unsetenv(EnvRdzvPassword)
		_ = scrub(EnvRdzvPassword) // where /proc cannot be changed, its own user sees it
	}
	return text
})

// RdzvPassword is the password that this process was given, or else the one in the file
// launch.rdzv_password_file, which only its owner may access.
func RdzvPassword(path string) (string, error) {
	if p := TakeRdzvPassword(); p != "" || path == "" {
		return p, nil
	}
	const key = "launch.rdzv_password_file"
	f, err := os.Open(path)
	if err != nil {
		return "", usererr.List{{Key: key, Detail: err.Error(), Help: "a file with the password"}}.Err()
	}
	defer f.Close()
	text, err := private(f)
	if err != nil {
		return "", usererr.List{{Key: key, Detail: fmt.Sprintf("%s %v", path, err), Help: "fix: chmod 600 " + path}}.Err()
	}
	return strings.TrimRight(text, "\r\n"), nil
}

// Pipe returns the end of a pipe from which a child reads the secret. The caller
// passes it to the child, sets EnvFD to its number in the child, and closes it.
func (s Secret) Pipe() (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	_, err = w.Write(s.b) // a pipe takes 4096 bytes without a reader
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Find returns the secret that this process was given, or else the one in the file,
// or zero if there is neither. path is launch.secret_file or "".
func Find(path string) (Secret, error) {
	g := Take()
	if g.Err != nil || !g.Secret.IsZero() || path == "" {
		return g.Secret, g.Err
	}
	return readFile(path)
}
