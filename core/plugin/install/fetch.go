package install

import (
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/plugin/registry"
)

// fetch puts the plugin's files into s.dir.
func (s *stager) fetch(ctx context.Context) error {
	source := registry.Expand(s.Source)
	info, err := os.Stat(source)
	switch {
	case strings.Contains(source, "://"):
		return s.download(ctx, source)
	case err == nil && info.IsDir() && s.SHA256 != "":
		return errors.New("--sha256 is the sum of a file, and this is a folder")
	case err == nil && info.IsDir():
		return s.unpack(func(w *writer) error { return w.copyDir(source) })
	case err == nil:
		return s.open(source, filepath.Base(source))
	case registry.IsPath(source) && (strings.HasPrefix(source, ".") || filepath.IsAbs(source)), !strings.Contains(source, "@"):
		return fmt.Errorf("%w; give a folder, a file, an https address, or a Go module as MODULE@VERSION", errors.Unwrap(err))
	}
	return s.build(ctx)
}

// mostRedirects is how often a server may send us elsewhere.
const mostRedirects = 5

// download fetches a file by https and verifies its sum.
func (s *stager) download(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("it is not a valid address")
	case u.Scheme != "https":
		return fmt.Errorf("%s is not supported; use an https address", u.Scheme)
	case s.SHA256 == "":
		return errors.New("an address needs --sha256, the SHA-256 sum of the file, from a place that you trust")
	}
	client := http.Client{CheckRedirect: checkRedirect}
	if s.Client != nil {
		client.Transport = s.Client.Transport
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	file := filepath.Join(s.tmp, "download")
	err = s.get(ctx, &client, address, file, s.silence(cancel))
	// A server that notices the end of the connection may still end its answer as if it were whole.
	if err = cmp.Or(context.Cause(ctx), err); err != nil {
		return err
	}
	return s.open(file, path.Base(u.Path))
}

// get fetches a file. Heard is called whenever the server has sent something.
func (s *stager) get(ctx context.Context, client *http.Client, address, file string, heard func()) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if failed := new(url.Error); errors.As(err, &failed) && failed.Timeout() || errors.As(err, new(*net.OpError)) {
		return fmt.Errorf("%w; fix: check the network and HTTPS_PROXY, or fetch the file by other means and install it from there", failed.Err)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answered %s", resp.Status)
	}
	return s.save(file, reader(func(b []byte) (int, error) {
		heard()
		return resp.Body.Read(b)
	}))
}

type reader func([]byte) (int, error)

func (r reader) Read(b []byte) (int, error) { return r(b) }

// silence cancels a download when the server has sent nothing for too long since the last call of
// the function that it returns.
func (s *stager) silence(cancel context.CancelCauseFunc) (heard func()) {
	limit := s.Limits.Silence
	if limit <= 0 {
		return func() {}
	}
	t := time.AfterFunc(limit, func() {
		cancel(fmt.Errorf("the server has sent nothing for %v; try again, or fetch the file by other means and install it from there", limit))
	})
	return func() { t.Reset(limit) }
}

// public is a source without what may be secret in an address: receipts and lock files are
// shared.
func public(source string) string {
	u, err := url.Parse(source)
	if err != nil || !strings.Contains(source, "://") {
		return source
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// checkRedirect follows redirects to https addresses alone.
func checkRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case req.URL.Scheme != "https":
		return fmt.Errorf("the server redirects to %s, which is not https", req.URL.Redacted())
	case len(via) > mostRedirects:
		return fmt.Errorf("the server redirected %d times", len(via))
	}
	return nil
}

// save writes what is downloaded to a file.
func (s *stager) save(file string, body io.Reader) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(body, s.Limits.Download+1))
	if err == nil && n > s.Limits.Download {
		err = fmt.Errorf("the file has more than %d bytes", s.Limits.Download)
	}
	return errors.Join(err, f.Close())
}

// open verifies the sum of an archive or executable and unpacks it.
func (s *stager) open(file, name string) error {
	return reading(file, func(f *os.File, info fs.FileInfo) error { return s.opened(f, info.Size(), name) })
}

func (s *stager) opened(f *os.File, size int64, name string) error {
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return err
	}
	s.sum = hex.EncodeToString(hash.Sum(nil))
	if s.SHA256 != "" {
		if _, err := registry.ParseSum(s.SHA256); err != nil {
			return err
		}
		if !strings.EqualFold(s.SHA256, s.sum) {
			return fmt.Errorf("its SHA-256 sum is %s, expected %s", s.sum, strings.ToLower(s.SHA256))
		}
	}
	return s.unpack(func(w *writer) error { return w.archive(f, size, name) })
}

// unpack lets f write the plugin's folder. Files of an archive with a single folder at its
// top are those of that folder.
func (s *stager) unpack(f func(w *writer) error) error {
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return err
	}
	err = errors.Join(f(&writer{root: root, left: s.Limits}), root.Close())
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(s.dir)
	if err == nil && len(entries) == 1 && entries[0].IsDir() {
		s.dir = filepath.Join(s.dir, entries[0].Name())
	}
	return err
}

// build installs a Go module's command with the go command, which verifies the module's
// sum as for any dependency.
func (s *stager) build(ctx context.Context) error {
	if s.SHA256 != "" {
		return errors.New("--sha256 is the sum of a file; the go command verifies modules itself")
	}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "install", "-trimpath", s.Source)
	cmd.Dir = s.tmp
	cmd.Env = append(os.Environ(), "GOBIN="+s.dir, "GO111MODULE=on", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
		return errors.New("the go command is not in PATH, and a module is built by it")
	} else if err != nil {
		return fmt.Errorf("go install: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	exe, _, err := s.executable()
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(exe)
	if err != nil {
		return err
	}
	s.version = info.Main.Version
	return nil
}
