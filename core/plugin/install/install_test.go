package install_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/plugin/install"
	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
)

// The test binary is the plugin that is installed, and the program that enters its sandbox.
func TestMain(m *testing.M) {
	host.ServeBuiltin(nil, os.Args[1:])
	if os.Getenv(pb.Handshake.MagicCookieKey) == pb.Handshake.MagicCookieValue {
		sdk.Serve(sdk.Plugin{Precision: func() sdk.Precision { return precision{} }})
	}
	os.Exit(m.Run())
}

type precision struct{ sdk.Precision }

func (precision) Info() sdk.Info {
	return sdk.Info{Name: "mine", Version: "v1.2.3", Summary: "is installed"}
}

func (precision) Close() error { return nil }

// entry is one file of an archive: with a target it is a symbolic link.
type entry struct{ name, text, target string }

// plugin is the text of an executable that starts the plugin.
func plugin(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	return "#!/bin/sh\nexec '" + exe + "'\n"
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func tarOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o4755, Size: int64(len(e.text)), Typeflag: tar.TypeReg}
		if e.target != "" {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, e.target, 0
		}
		if hard, ok := strings.CutPrefix(e.target, "hard:"); ok {
			h.Typeflag, h.Linkname = tar.TypeLink, hard
		}
		must(t, w.WriteHeader(h))
		_, err := w.Write([]byte(e.text))
		must(t, err)
	}
	must(t, errors.Join(w.Close(), z.Close()))
	return b.Bytes()
}

func zipOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(0o755)
		text := e.text
		if e.target != "" {
			h.SetMode(fs.ModeSymlink | 0o777)
			text = e.target
		}
		f, err := w.CreateHeader(h)
		must(t, err)
		_, err = f.Write([]byte(text))
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

func hexSum(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// file writes a file to a new folder.
func file(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, content, 0o755))
	return path
}

func newRequest(t *testing.T, source string) install.Request {
	builtin := host.Builtin{Kind: sdk.KindPrecision, Name: "amp", Plugin: sdk.Plugin{Precision: func() sdk.Precision { return precision{} }}}
	return install.Request{Source: source, Dir: filepath.Join(t.TempDir(), "plugins"), Host: host.New(host.Options{Builtins: []host.Builtin{builtin}})}
}

// left lists what a folder of installed plugins contains.
func left(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// installed installs a plugin, starts it by its name, and removes it.
func installed(t *testing.T, r install.Request, name, version string) {
	t.Helper()
	all, err := install.Install(t.Context(), r)
	must(t, err)
	receipt := all[0]
	id := "trainctl-precision-" + name + "@" + version
	if want := filepath.Join(r.Dir, id); receipt.Path != want || receipt.Version != version || len(receipt.Kinds) != 1 {
		t.Errorf("got %+v, want %s", receipt, want)
	}
	byName := host.New(host.Options{Search: registry.Search{{Path: r.Dir}}})
	if info, err := byName.Probe(t.Context(), sdk.KindPrecision, name); err != nil || info.Summary != "is installed" {
		t.Errorf("started by name: %+v, %v", info, err)
	}
	if _, err := install.Install(t.Context(), r); err == nil || !strings.Contains(err.Error(), "already installed") {
		t.Errorf("installed twice: %v", err)
	}
	r.Force = true
	if _, err := install.Install(t.Context(), r); err != nil {
		t.Errorf("with force: %v", err)
	}
	if got := left(t, r.Dir); len(got) != 2 || got[0] != id || got[1] != id+".json" {
		t.Errorf("the folder has %q", got)
	}
	if all := install.List(r.Dir); len(all) != 1 || all[0].Source != r.Source {
		t.Errorf("listed: %+v", all)
	}
	_, err = install.Remove(r.Dir, "", name, version)
	must(t, err)
	if got := left(t, r.Dir); len(got) != 0 {
		t.Errorf("removed, and the folder has %q", got)
	}
}

func TestInstallFromFiles(t *testing.T) {
	t.Parallel()
	text := plugin(t)
	tree := []entry{{name: "pkg/trainctl-precision-mine", text: text}, {name: "pkg/lib/data", text: "x"}, {name: "pkg/lib/link", target: "../lib/data"}}
	dir := t.TempDir()
	must(t, errors.Join(os.WriteFile(filepath.Join(dir, "run"), []byte(text), 0o755), os.Mkdir(filepath.Join(dir, "lib"), 0o700), os.Symlink("lib", filepath.Join(dir, "also"))))
	linked := filepath.Join(t.TempDir(), "linked")
	must(t, os.Symlink(dir, linked))
	for source, name := range map[string]string{
		file(t, "mine.tar.gz", tarOf(t, tree...)): "mine", file(t, "mine.zip", zipOf(t, tree...)): "mine",
		file(t, "my-build", []byte(text)): "mine", file(t, "trainctl-precision-other", []byte(text)): "other", dir: "mine", linked: "mine",
	} {
		installed(t, newRequest(t, source), name, "1.2.3")
	}
	r := newRequest(t, dir)
	r.Name = "renamed"
	installed(t, r, "renamed", "1.2.3")
}

// server serves an archive at /mine.tar.gz, and other answers at other paths.
func server(t *testing.T, content []byte) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/mine.tar.gz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) })
	mux.Handle("/moved", http.RedirectHandler("/mine.tar.gz", http.StatusFound))
	mux.Handle("/loop", http.RedirectHandler("/loop", http.StatusFound))
	mux.Handle("/plain", http.RedirectHandler("http://127.0.0.1:1/mine.tar.gz", http.StatusFound))
	mux.HandleFunc("/silent", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(content[:10])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	s := httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestInstallFromAnAddress(t *testing.T) {
	t.Parallel()
	content := tarOf(t, entry{name: "trainctl-precision-mine", text: plugin(t)})
	s := server(t, content)
	for _, path := range []string{"/mine.tar.gz", "/moved"} {
		r := newRequest(t, s.URL+path)
		r.SHA256, r.Client = hexSum(content), s.Client()
		installed(t, r, "mine", "1.2.3")
	}
	secret := newRequest(t, strings.Replace(s.URL, "https://", "https://me:secret@", 1)+"/mine.tar.gz?token=secret")
	secret.SHA256, secret.Client = hexSum(content), s.Client()
	if all, err := install.Install(t.Context(), secret); err != nil || all[0].Source != s.URL+"/mine.tar.gz" {
		t.Errorf("an address with secrets: %+v, %v", all, err)
	}
	small := install.Limits{Download: 100, Bytes: 100, Files: 3}
	for _, c := range []struct {
		address, sum, want string
		limits             install.Limits
	}{
		{s.URL + "/mine.tar.gz", "", "an address needs --sha256", install.Limits{}},
		{s.URL + "/mine.tar.gz", strings.Repeat("0", 64), "its SHA-256 sum is " + hexSum(content) + ", expected 000", install.Limits{}},
		{s.URL + "/mine.tar.gz", "00", `"00" is not a SHA-256 sum`, install.Limits{}},
		{s.URL + "/mine.tar.gz", hexSum(content), "the file has more than 100 bytes", small},
		{s.URL + "/gone", hexSum(content), "the server answered 404", install.Limits{}},
		{s.URL + "/loop", hexSum(content), "redirected 6 times", install.Limits{}},
		{s.URL + "/silent", hexSum(content), "the server has sent nothing for 50ms", install.Limits{Download: 1 << 30, Silence: 50 * time.Millisecond}},
		{s.URL + "/plain", hexSum(content), "which is not https", install.Limits{}},
		{strings.Replace(s.URL, "https", "http", 1) + "/mine.tar.gz", hexSum(content), "http is not supported", install.Limits{}},
	} {
		r := newRequest(t, c.address)
		r.SHA256, r.Client, r.Limits = c.sum, s.Client(), c.limits
		refuses(t, r, c.want)
	}
}

// A transport whose answer ends as if it were whole once its request is canceled: what a server
// does that notices the closed connection before the client has closed its side.
type endsWhenCanceled struct{}

func (endsWhenCanceled) RoundTrip(r *http.Request) (*http.Response, error) {
	body, end := io.Pipe()
	context.AfterFunc(r.Context(), func() { end.Close() })
	return &http.Response{StatusCode: http.StatusOK, Body: body, Request: r}, nil
}

func TestDownloadCutShort(t *testing.T) {
	t.Parallel()
	r := newRequest(t, "https://example.com/mine.tar.gz")
	r.SHA256, r.Client = hexSum(nil), &http.Client{Transport: endsWhenCanceled{}}
	r.Limits = install.Limits{Download: 1 << 30, Silence: time.Millisecond}
	refuses(t, r, "the server has sent nothing for 1ms")
}

// refuses expects an error and that nothing is left.
func refuses(t *testing.T, r install.Request, want string) {
	t.Helper()
	if _, err := install.Install(t.Context(), r); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: want %q, got %v", r.Source, want, err)
	}
	if got := left(t, r.Dir); len(got) != 0 {
		t.Errorf("%s: the folder has %q", r.Source, got)
	}
}

func TestArchivesThatAreRefused(t *testing.T) {
	t.Parallel()
	exe := entry{name: "trainctl-precision-mine", text: plugin(t)}
	for _, c := range []struct {
		want    string
		entries []entry
	}{
		{`the path "../planted" leads out`, []entry{exe, {name: "../planted", text: "x"}}},
		{`the path "/tmp/planted" leads out`, []entry{exe, {name: "/tmp/planted", text: "x"}}},
		{`the path "a/../../planted" leads out`, []entry{exe, {name: "a/../../planted", text: "x"}}},
		{`the link "l" leads out of the plugin's folder, to "../x"`, []entry{exe, {name: "l", target: "../x"}}},
		{`the link "l" leads out of the plugin's folder, to "/etc"`, []entry{exe, {name: "l", target: "/etc"}, {name: "l/planted", text: "x"}}},
		{`"a/b/s/l" lies below the symbolic link "a/b/s"`, []entry{exe, {name: "a/b/x", text: "x"}, {name: "a/b/s", target: "../../top"}, {name: "a/b/s/l", target: "../../../x"}}},
		{`the link "out" leads out of the plugin's folder`, []entry{exe, {name: "a/b/up", target: "../.."}, {name: "out", target: "a/b/up/../../x"}}},
		{`the link "out" leads out of the plugin's folder`, []entry{{name: "pkg/" + exe.name, text: exe.text}, {name: "pkg/out", target: "../other"}}},
		{"it contains no executable", []entry{{name: "lib/x", text: "x"}, {name: "y/z", text: "y"}}},
		{"it contains several executables (a, b)", []entry{{name: "a", text: "x"}, {name: "b", text: "x"}}},
		{`it has the file "trainctl-precision-mine" twice`, []entry{exe, exe}},
		{"cannot be used", []entry{{name: "mine", text: "#!/bin/sh\nexit 3\n"}}},
		{`a built-in precision plugin is named "amp"`, []entry{{name: "trainctl-precision-amp", text: exe.text}}},
		{`"UP" cannot be the name of an installed plugin`, []entry{{name: "trainctl-precision-UP", text: exe.text}}},
		{"its files are too large", []entry{exe, {name: "big", text: strings.Repeat("0", 1<<16)}}},
		{"it has too many files", []entry{exe, {name: "1", text: "x"}, {name: "2", text: "x"}, {name: "3", text: "x"}, {name: "4", text: "x"}, {name: "5", text: "x"}}},
	} {
		for name, archive := range map[string][]byte{"x.tar.gz": tarOf(t, c.entries...), "x.zip": zipOf(t, c.entries...)} {
			r := newRequest(t, file(t, name, archive))
			r.Limits = install.Limits{Download: 1 << 20, Bytes: 1 << 15, Files: 5}
			refuses(t, r, c.want)
		}
	}
	whole := tarOf(t, exe)
	refuses(t, newRequest(t, file(t, "x.tar.gz", whole[:len(whole)/2])), "the archive is damaged")
	nowhere := newRequest(t, file(t, "x.tar.gz", whole))
	nowhere.Dir = filepath.Join(file(t, "file", nil), "plugins")
	if _, err := install.Install(t.Context(), nowhere); err == nil || !strings.Contains(err.Error(), "cannot be created") || !strings.Contains(err.Error(), "XDG_DATA_HOME") {
		t.Errorf("a folder that cannot be created: %v", err)
	}
	refuses(t, newRequest(t, file(t, "x.tar.gz", tarOf(t, exe, entry{name: "h", target: "hard:/etc/passwd"}))), `"h" is neither a file, a folder nor a symbolic link`)
	refuses(t, newRequest(t, file(t, "x.tar.gz", []byte("\x1f\x8bnothing"))), "the archive is damaged")
	refuses(t, newRequest(t, "nowhere"), "no such file or directory; give a folder, a file, an https address, or a Go module")
}

// While a plugin is replaced, there is always one at its place.
func TestForceReplacesInOneStep(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skipf("%s cannot swap folders", runtime.GOOS)
	}
	r := newRequest(t, file(t, "mine", []byte(plugin(t))))
	r.Force = true
	all, err := install.Install(t.Context(), r)
	must(t, err)
	exe := filepath.Join(all[0].Path, "trainctl-precision-mine")
	done, gone := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-done:
				gone <- nil
				return
			default:
			}
			if err := registry.Check(exe); err != nil {
				gone <- err
				return
			}
		}
	}()
	for range 5 {
		_, err := install.Install(t.Context(), r)
		must(t, err)
	}
	close(done)
	must(t, <-gone)
}

// What an installation that was killed has left is removed after a day, whatever the folder's name.
func TestStaleFoldersAreRemoved(t *testing.T) {
	t.Parallel()
	r := newRequest(t, file(t, "mine", []byte(plugin(t))))
	r.Dir = filepath.Join(t.TempDir(), "[plugins")
	stale, fresh := filepath.Join(r.Dir, ".installing-1"), filepath.Join(r.Dir, ".installing-2")
	must(t, errors.Join(os.MkdirAll(stale, 0o755), os.MkdirAll(fresh, 0o755)))
	before := time.Now().Add(-25 * time.Hour)
	must(t, os.Chtimes(stale, before, before))
	_, err := install.Install(t.Context(), r)
	must(t, err)
	if got := left(t, r.Dir); slices.Contains(got, filepath.Base(stale)) || !slices.Contains(got, filepath.Base(fresh)) {
		t.Errorf("the folder has %q", got)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	r := newRequest(t, file(t, "mine", []byte(plugin(t))))
	_, err := install.Install(t.Context(), r)
	must(t, err)
	if _, err := install.Remove(r.Dir, "", "mine", "9.9"); !errors.As(err, new(*install.NotInstalledError)) || !strings.Contains(err.Error(), "mine@9.9 is not installed in "+r.Dir+"; installed are mine@1.2.3") {
		t.Errorf("another version: %v", err)
	}
	other := filepath.Join(r.Dir, "trainctl-dataset-mine@1.0.0")
	must(t, errors.Join(os.Mkdir(other, 0o755), os.WriteFile(filepath.Join(other, "trainctl-dataset-mine"), nil, 0o755)))
	if _, err := install.Remove(r.Dir, "", "mine", ""); err == nil || !strings.Contains(err.Error(), "choose one with --kind") {
		t.Errorf("two kinds: %v", err)
	}
	removed, err := install.Remove(r.Dir, sdk.KindDataset, "mine", "")
	if err != nil || len(removed) != 1 || removed[0].Path != other {
		t.Errorf("removed %+v, %v", removed, err)
	}
}
