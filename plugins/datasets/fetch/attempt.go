package fetch

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/afero"
)

// attempt downloads a file from one URL, continuing an existing part. It reports
// whether it continued one. After a *ContentError no part is left.
func (s *session) attempt(ctx context.Context, url string, file File) (resumed bool, err error) {
	part := filepath.Join(s.dir, file.Name+".part")
	f, err := s.Fs.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return false, fmt.Errorf("cannot write: %w", err)
	}
	defer f.Close()
	t := &transfer{session: s, file: file, f: f, sum: md5.New()}
	if t.done, err = io.Copy(t.sum, f); err != nil {
		return false, fmt.Errorf("cannot read %s: %w", part, err)
	}
	resumed = t.done > 0
	err = t.run(ctx, url)
	if errors.As(err, new(*ContentError)) {
		err = errors.Join(err, s.Fs.Remove(part))
	}
	if err != nil {
		return resumed, err
	}
	return resumed, s.keep(f, part, strings.TrimSuffix(part, ".part"))
}

// keep renames a verified part to its final name, durably.
func (s *session) keep(f afero.File, part, name string) error {
	if err := f.Sync(); err != nil {
		return fmt.Errorf("cannot write %s: %w", part, err)
	}
	return s.Fs.Rename(part, name)
}

// transfer writes one response of one mirror to the part file.
type transfer struct {
	*session
	file File
	f    afero.File
	sum  hash.Hash
	done int64 // bytes in the part file, all included in sum
}

func (t *transfer) run(ctx context.Context, url string) error {
	ctx, watch := newWatchdog(ctx, orDefault(t.Idle, defaultIdle))
	defer watch.stop()
	err := t.exchange(ctx, url, watch)
	if err != nil && watch.fired() {
		return &StallError{Idle: watch.idle, Done: t.done}
	}
	return err
}

func (t *transfer) exchange(ctx context.Context, url string, watch *watchdog) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if t.done > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", t.done))
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return withoutURL(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return t.check() // the part is complete already, or longer than the file
	}
	if err := t.position(resp); err != nil {
		return err
	}
	if err := t.receive(watch.reader(resp.Body), resp.ContentLength); err != nil {
		return err
	}
	return t.check()
}

// withoutURL removes the address from an error, because the caller adds it.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// position truncates the part file to where the response starts.
func (t *transfer) position(resp *http.Response) error {
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/html" {
		return fmt.Errorf("the mirror sent a web page (%s, from %s) instead of the file", resp.Status, resp.Request.URL)
	}
	switch resp.StatusCode {
	case http.StatusOK:
		if err := t.restart(); err != nil {
			return err
		}
	case http.StatusPartialContent:
		if want := fmt.Sprintf("bytes %d-", t.done); !strings.HasPrefix(resp.Header.Get("Content-Range"), want) {
			return contentf("the mirror sent range %q instead of %q", resp.Header.Get("Content-Range"), want)
		}
	default:
		return fmt.Errorf("the mirror answered %s", resp.Status)
	}
	return nil
}

func (t *transfer) restart() error {
	t.done = 0
	t.sum.Reset()
	if err := t.f.Truncate(0); err != nil {
		return err
	}
	_, err := t.f.Seek(0, io.SeekStart)
	return err
}

func (t *transfer) receive(body io.Reader, length int64) error {
	total := t.done + max(length, 0)
	buf := make([]byte, 64<<10)
	for {
		n, err := body.Read(buf)
		if t.done+int64(n) > MaxBytes {
			return contentf("the mirror sends more than %d bytes", MaxBytes)
		}
		if _, werr := t.f.Write(buf[:n]); werr != nil {
			return fmt.Errorf("cannot write: %w", werr)
		}
		t.sum.Write(buf[:n])
		t.progress(int64(n), total)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("after %d bytes: %w", t.done, err)
		}
	}
}

// progressEvery is the number of bytes between progress lines.
const progressEvery = 512 << 10

func (t *transfer) progress(n, total int64) {
	before := t.done
	t.done += n
	if before/progressEvery != t.done/progressEvery || t.done == total && n > 0 {
		t.Log.Info("downloading "+t.file.Name, "done", t.done, "total", total)
	}
}

func (t *transfer) check() error {
	if got := hex.EncodeToString(t.sum.Sum(nil)); got != t.file.MD5 {
		return contentf("wrong content: MD5 %s of %d bytes, expected %s", got, t.done, t.file.MD5)
	}
	return nil
}
