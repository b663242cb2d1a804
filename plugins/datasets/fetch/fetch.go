package fetch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/afero"
)

// File is one file to download.
type File struct {
	Name string // relative to the mirror and to the folder
	MD5  string // lower-case hex
}

// Fetcher downloads files. The zero value of a duration means its default.
type Fetcher struct {
	Fs      afero.Fs
	Mirrors []string      // base URLs, best first
	Connect time.Duration // limit to connect; default 3 s, so that a machine without a network fails soon
	Idle    time.Duration // limit without a single byte; default 10 s
	Log     *slog.Logger  // progress lines carry "done" and "total" in bytes
}

// MaxBytes is the size of the largest file that is accepted from a mirror.
const MaxBytes = 256 << 20

const (
	defaultConnect = 3 * time.Second
	defaultIdle    = 10 * time.Second
)

// Fetch downloads the files that dir lacks; existing files are not changed. The
// error lists what went wrong with each mirror.
func (f *Fetcher) Fetch(ctx context.Context, dir string, files []File) error {
	if len(f.Mirrors) == 0 {
		return errors.New("no mirrors are set to download from")
	}
	if err := f.Fs.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot create the folder to download to: %w", err)
	}
	client := f.client()
	defer client.CloseIdleConnections()
	s := &session{Fetcher: f, client: client, dir: dir, dead: map[string]error{}}
	for _, file := range files {
		if ok, _ := afero.Exists(f.Fs, filepath.Join(dir, file.Name)); ok {
			continue
		}
		if err := s.fromAnyMirror(ctx, file); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fetcher) client() *http.Client {
	connect := orDefault(f.Connect, defaultConnect)
	return &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: connect}).DialContext,
		TLSHandshakeTimeout:   connect,
		ResponseHeaderTimeout: orDefault(f.Idle, defaultIdle),
		DisableCompression:    true, // the files are gzip themselves, and their sums are those of the gzip files
	}}
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// session is one call of Fetch. It records mirrors that cannot be reached.
type session struct {
	*Fetcher
	client *http.Client
	dir    string
	dead   map[string]error
}

func (s *session) fromAnyMirror(ctx context.Context, file File) error {
	var tried []error
	for _, mirror := range s.Mirrors {
		if err := s.dead[mirror]; err != nil {
			tried = append(tried, err)
			continue
		}
		err := s.fromMirror(ctx, mirror, file)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("download of %s: %w", file.Name, context.Cause(ctx))
		}
		err = fmt.Errorf("%s: %w", join(mirror, file.Name), err)
		s.Log.Debug("download failed", "error", err) // the caller reports all mirrors at once
		if unreachable(err) {
			s.dead[mirror] = err
		}
		tried = append(tried, err)
	}
	return errors.Join(tried...)
}

// fromMirror tries one mirror. If a resumed file has the wrong content, it downloads the
// file again from the start: the first part may come from another mirror.
func (s *session) fromMirror(ctx context.Context, mirror string, file File) error {
	resumed, err := s.attempt(ctx, join(mirror, file.Name), file)
	if resumed && errors.As(err, new(*ContentError)) {
		_, err = s.attempt(ctx, join(mirror, file.Name), file)
	}
	return err
}

func join(mirror, name string) string { return strings.TrimRight(mirror, "/") + "/" + name }

// unreachable reports whether no connection could be established.
func unreachable(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &dns) || errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")
}

// ContentError reports a response that is not the requested file.
type ContentError struct{ Detail string }

func (e *ContentError) Error() string { return e.Detail }

func contentf(format string, args ...any) error {
	return &ContentError{fmt.Sprintf(format, args...)}
}

// StallError reports a connection that delivered no more data.
type StallError struct {
	Idle time.Duration
	Done int64 // bytes that had arrived
}

func (e *StallError) Error() string {
	return fmt.Sprintf("no data for %v after %d bytes", e.Idle, e.Done)
}
