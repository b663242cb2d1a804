package fetch

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/afero"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerEnv); dir != "" {
		ownLock(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

var content = bytes.Repeat([]byte("0123456789abcdef"), 100_000)

func file() File {
	sum := md5.Sum(content)
	return File{Name: "a.gz", MD5: hex.EncodeToString(sum[:])}
}

// mirror serves requests by a handler and counts them.
type mirror struct {
	*httptest.Server
	hits atomic.Int64
}

func serve(t *testing.T, h http.HandlerFunc) *mirror {
	t.Helper()
	m := &mirror{}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.hits.Add(1)
		h(w, r)
	}))
	t.Cleanup(m.Close)
	return m
}

func whole(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/gzip")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

func fetcher(fs afero.Fs, mirrors ...*mirror) *Fetcher {
	f := &Fetcher{Fs: fs, Log: slog.New(slog.DiscardHandler)}
	for _, m := range mirrors {
		f.Mirrors = append(f.Mirrors, m.URL+"/data/")
	}
	return f
}

func expectFile(t *testing.T, fs afero.Fs) {
	t.Helper()
	got, err := afero.ReadFile(fs, "/d/a.gz")
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("the file: %d bytes, %v", len(got), err)
	}
	if ok, _ := afero.Exists(fs, "/d/a.gz.part"); ok {
		t.Error("the part file is left")
	}
}

func TestBadMirrorsAreSkipped(t *testing.T) {
	bad := map[string]struct {
		handler http.HandlerFunc
		message string
	}{
		"wrong content": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(bytes.ToUpper(content))
		}, "wrong content: MD5"},
		"not found": {http.NotFound, "404 Not Found"},
		"redirect to a web page": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/login" {
				http.Redirect(w, r, "/login", http.StatusFound)
				return
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte("<html>"))
		}, "/login"},
		"cut": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
			_, _ = w.Write(content[:1000])
		}, "unexpected EOF"},
		"wrong range": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes 5-9/10")
			w.WriteHeader(http.StatusPartialContent)
		}, "sent range"},
	}
	for name, c := range bad {
		t.Run(name, func(t *testing.T) {
			fs := afero.NewMemMapFs()
			worse, better := serve(t, c.handler), serve(t, whole)
			var log bytes.Buffer
			f := fetcher(fs, worse, better)
			f.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			if err := f.Fetch(t.Context(), "/d", []File{file()}); err != nil {
				t.Fatal(err)
			}
			expectFile(t, fs)
			if !strings.Contains(log.String(), c.message) {
				t.Errorf("the log does not say %q:\n%s", c.message, &log)
			}

			fs = afero.NewMemMapFs()
			err := fetcher(fs, worse).Fetch(t.Context(), "/d", []File{file()})
			if err == nil || !strings.Contains(err.Error(), c.message) || !strings.Contains(err.Error(), worse.URL+"/data/a.gz") {
				t.Errorf("alone: %v; want the address and %q", err, c.message)
			}
			if ok, _ := afero.Exists(fs, "/d/a.gz"); ok {
				t.Error("a bad file was kept")
			}
		})
	}
}

func TestStall(t *testing.T) {
	fs := afero.NewMemMapFs()
	silent := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(content[:5000])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	f := fetcher(fs, silent)
	f.Idle = time.Second // in which the first bytes come, on a busy machine too
	err := f.Fetch(t.Context(), "/d", []File{file()})
	var stall *StallError
	if !errors.As(err, &stall) || stall.Done != 5000 {
		t.Fatalf("got %v, want a stall after 5000 bytes", err)
	}

	var from atomic.Value
	next := serve(t, func(w http.ResponseWriter, r *http.Request) {
		from.Store(r.Header.Get("Range"))
		whole(w, r)
	})
	if err := fetcher(fs, next).Fetch(t.Context(), "/d", []File{file()}); err != nil {
		t.Fatal(err)
	}
	if from.Load() != "bytes=5000-" {
		t.Errorf("the next attempt asked for %q, want the rest", from.Load())
	}
	expectFile(t, fs)
}

func TestResume(t *testing.T) {
	for name, part := range map[string][]byte{
		"begun":    content[:777_777],
		"whole":    content,
		"foreign":  []byte("something else"),
		"too long": append(bytes.Clone(content), "more"...),
	} {
		t.Run(name, func(t *testing.T) {
			fs := afero.NewMemMapFs()
			if err := afero.WriteFile(fs, "/d/a.gz.part", part, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := fetcher(fs, serve(t, whole)).Fetch(t.Context(), "/d", []File{file()}); err != nil {
				t.Fatal(err)
			}
			expectFile(t, fs)
		})
	}
}

func TestNoRangeSupport(t *testing.T) {
	fs := afero.NewMemMapFs()
	if err := afero.WriteFile(fs, "/d/a.gz.part", content[:5], 0o644); err != nil {
		t.Fatal(err)
	}
	plain := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(content) })
	if err := fetcher(fs, plain).Fetch(t.Context(), "/d", []File{file()}); err != nil {
		t.Fatal(err)
	}
	expectFile(t, fs)
}

func TestUnreachableMirrorIsTriedOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := &mirror{Server: &httptest.Server{URL: "http://" + l.Addr().String()}}
	l.Close()
	var log bytes.Buffer
	f := fetcher(afero.NewMemMapFs(), closed, serve(t, whole))
	f.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	two := file()
	two.Name = "b.gz"
	if err := f.Fetch(t.Context(), "/d", []File{file(), two}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "download failed"); n != 1 {
		t.Errorf("tried the unreachable mirror %d times:\n%s", n, &log)
	}
}

func TestPresentFilesAreLeftAlone(t *testing.T) {
	fs := afero.NewMemMapFs()
	if err := afero.WriteFile(fs, "/d/a.gz", []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	m := serve(t, whole)
	if err := fetcher(fs, m).Fetch(t.Context(), "/d", []File{file()}); err != nil {
		t.Fatal(err)
	}
	if got, _ := afero.ReadFile(fs, "/d/a.gz"); string(got) != "mine" || m.hits.Load() != 0 {
		t.Errorf("file %q after %d requests", got, m.hits.Load())
	}
}

func TestDeadline(t *testing.T) {
	silent := serve(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := fetcher(afero.NewMemMapFs(), silent, silent).Fetch(ctx, "/d", []File{file()})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestProgress(t *testing.T) {
	var log bytes.Buffer
	f := fetcher(afero.NewMemMapFs(), serve(t, whole))
	f.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if err := f.Fetch(t.Context(), "/d", []File{file()}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"done=1600000 total=1600000", "downloading a.gz"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in\n%s", want, &log)
		}
	}
}

func TestReadOnlyFolder(t *testing.T) {
	fs := afero.NewReadOnlyFs(afero.NewMemMapFs())
	err := fetcher(fs, serve(t, whole)).Fetch(t.Context(), "/d", []File{file()})
	if err == nil || !strings.Contains(err.Error(), "cannot create the folder") {
		t.Errorf("got %v", err)
	}
}

func mustLock(t *testing.T, fs afero.Fs, dir string) (unlock func(), after bool) {
	t.Helper()
	unlock, after, err := Lock(t.Context(), fs, dir)
	if err != nil {
		t.Fatal(err)
	}
	return unlock, after
}

func TestLockExcludes(t *testing.T) {
	fs, dir := afero.NewOsFs(), t.TempDir()
	path := filepath.Join(dir, lockName)
	unlock, _ := mustLock(t, fs, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := Lock(ctx, fs, dir); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second rank of this process got %v", err)
	}
	_, _, err := waitLock(ctx, fs, path) // as another process would, without the token of this one
	if want := "process " + strconv.Itoa(os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("another process got %v, want the owner %q", err, want)
	}
	unlock()
	if ok, _ := afero.Exists(fs, path); ok {
		t.Error("the lock file is left")
	}
}

func TestLockAfterAnotherOwner(t *testing.T) {
	fs, dir := afero.NewOsFs(), t.TempDir()
	path := filepath.Join(dir, lockName)
	synctest.Test(t, func(t *testing.T) {
		first, after := mustLock(t, fs, dir)
		if after {
			t.Error("the first owner came after somebody")
		}
		got := make(chan bool)
		go func() { // a rank of this process
			unlock, after := mustLock(t, fs, dir)
			unlock()
			got <- after
		}()
		go func() { // a rank of another one, without the token of this
			f, after, err := waitLock(t.Context(), fs, path)
			if err != nil {
				t.Error(err)
			} else {
				_ = fs.Remove(path)
				_ = f.Close()
			}
			got <- after
		}()
		synctest.Wait()
		first()
		if a, b := <-got, <-got; !a || !b {
			t.Error("a rank that waited does not know that another one finished")
		}
	})
}

func TestLockOfTheDeadIsTaken(t *testing.T) {
	fs, dir := afero.NewOsFs(), t.TempDir()
	if err := afero.WriteFile(fs, filepath.Join(dir, lockName), []byte("999999999\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	unlock, after := mustLock(t, fs, dir)
	if after {
		t.Error("a dead owner counts as one that finished")
	}
	unlock()
}

func TestOneOfManyHasTheLock(t *testing.T) {
	fs, dir := afero.NewOsFs(), t.TempDir()
	path := filepath.Join(dir, lockName)
	var inside, most atomic.Int64
	done := make(chan error)
	for range 8 {
		go func() {
			for range 50 {
				f, _, err := tryLock(fs, path)
				if err != nil {
					done <- err
					return
				}
				if f == nil {
					continue
				}
				most.Store(max(most.Load(), inside.Add(1)))
				inside.Add(-1)
				_ = fs.Remove(path)
				_ = f.Close()
			}
			done <- nil
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if most.Load() != 1 {
		t.Errorf("%d had the lock at the same time", most.Load())
	}
}
