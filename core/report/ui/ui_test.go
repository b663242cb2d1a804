package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"
	"go.uber.org/goleak"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/rundir"
	"github.com/trainctl/trainctl/core/report/rundir/rundirtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is a browser that has opened the address of a server.
type client struct {
	*http.Client
	t    *testing.T
	base string
	s    *Server
}

// serve starts a server for /runs of a file system.
func serve(t *testing.T, fsys afero.Fs) *client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{FS: fsys, Dir: "/runs"})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	jar, _ := cookiejar.New(nil) // never an error
	c := &client{&http.Client{Jar: jar, Transport: &http.Transport{}}, t, "http://" + l.Addr().String(), s}
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		c.CloseIdleConnections()
	})
	if status, body := c.get(strings.TrimPrefix(s.Address(l.Addr()), c.base)); status != 200 {
		t.Fatal(status, body)
	}
	return c
}

func (c *client) get(path string) (status int, body string) {
	c.t.Helper()
	return c.do("GET", path, nil, nil)
}

func (c *client) do(method, path string, form url.Values, header http.Header) (status int, body string) {
	c.t.Helper()
	req, err := http.NewRequest(method, c.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		c.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := c.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// Nobody gets an answer without the token, from another name of this machine, or by another site.
func TestRequestsAreGuarded(t *testing.T) {
	fsys := afero.NewMemMapFs()
	rundirtest.New(t, fsys, "/runs", "a")
	c := serve(t, fsys)
	stranger := &client{&http.Client{Transport: c.Transport}, t, c.base, c.s}
	for _, path := range []string{"/", "/runs?id=a/1", "/data?id=a/1", "/events?id=a/1", "/logs?id=a/1", "/state?id=a/1", "/?token=wrong", "/?token="} {
		if status, body := stranger.get(path); status != http.StatusForbidden || strings.Contains(body, "a/1") {
			t.Errorf("%s without the token: %d %s", path, status, body)
		}
	}
	for _, header := range []http.Header{{"Authorization": {"Bearer wrong"}}, {"Cookie": {"trainctl-1=" + c.s.token}}, {"Authorization": {c.s.token + "x"}}} {
		if status, _ := stranger.do("GET", "/", nil, header); status != http.StatusForbidden {
			t.Errorf("%v: %d", header, status)
		}
	}
	if status, _ := stranger.do("GET", "/", nil, http.Header{"Authorization": {"Bearer " + c.s.token}}); status != 200 {
		t.Errorf("with the token: %d", status)
	}
	if status, _ := c.do("GET", "/", nil, http.Header{"Host": {"evil.example"}}); status != http.StatusForbidden {
		t.Errorf("another name of this machine: %d", status)
	}
	form := url.Values{"id": {"a/1"}, "tags": {"x"}}
	for _, header := range []http.Header{{"Origin": {"https://evil.example"}}, {"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}}} {
		for _, path := range []string{"/labels", "/save", "/stop"} {
			if status, _ := c.do("POST", path, form, header); status != http.StatusForbidden {
				t.Errorf("%s with %v: %d", path, header, status)
			}
		}
	}
	if status, _ := c.get("/stop?id=a/1"); status != http.StatusMethodNotAllowed {
		t.Errorf("stopping with GET: %d", status)
	}
}

// The list has all runs with what people say about them, as text.
func TestListAndLabels(t *testing.T) {
	fsys := afero.NewMemMapFs()
	for range 2 {
		r := rundirtest.New(t, fsys, "/runs", "<b>a")
		r.Tell(&event.RunStarted{Name: "a"}, &event.PlanMade{Steps: 20})
		r.Steps(1, 10)
	}
	c := serve(t, fsys)
	form := url.Values{"id": {"<b>a/1"}, "tags": {" good, <i>tag"}, "note": {"</script><script>alert(1)</script>"}}
	if status, body := c.do("POST", "/labels", form, http.Header{"Sec-Fetch-Site": {"same-origin"}}); status != 200 {
		t.Fatal(status, body)
	}
	_, body := c.get("/")
	for _, want := range []string{"&lt;b&gt;a/1", "&lt;b&gt;a/2", "&lt;i&gt;tag, good", "10 of 20"} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, bad := range []string{"<b>a", "<i>tag", "<script>alert"} {
		if strings.Contains(body, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	dirs, err := rundir.List(fsys, "/runs")
	if err != nil {
		t.Fatal(err)
	}
	if l, err := rundir.ReadLabels(fsys, dirs[0]); err != nil || l.Note != form.Get("note") || len(l.Tags) != 2 {
		t.Errorf("%+v %v", l, err)
	}
}

// Pages exist for runs below the folder, and for nothing else.
func TestPages(t *testing.T) {
	fsys := afero.NewMemMapFs()
	for range 2 {
		r := rundirtest.New(t, fsys, "/runs", "a")
		r.Tell(&event.RunStarted{Name: "a"})
		r.Steps(1, 10)
	}
	rundirtest.New(t, fsys, "/other", "secret")
	c := serve(t, fsys)
	for path, want := range map[string]int{
		"/runs?id=a/1&id=a/2": 200, "/data?id=a/1": 200, "/state?id=a/1": 200,
		"/runs": 400, "/runs?id=a/3": 404, "/runs?id=../other/secret/1": 404, "/data?id=/other/secret/1": 404, "/logs?id=a/1&rank=9": 404, "/logs?id=a/1&rank=x": 400, "/runs?id=a/1&id=a/1": 400, "/etc": 404,
	} {
		if status, body := c.get(path); status != want {
			t.Errorf("%s: %d %.200s, want %d", path, status, body, want)
		}
	}
	var both sync.WaitGroup // in either order, at the same time
	for _, query := range []string{"id=a/1&id=a/2", "id=a/2&id=a/1"} {
		both.Go(func() {
			for range 20 {
				if status, body := c.get("/data?" + query); status != 200 {
					t.Errorf("%s: %d %.200s", query, status, body)
				}
			}
		})
	}
	both.Wait()
	_, body := c.get("/runs?id=a/1&id=a/2")
	if !strings.Contains(body, "2 runs compared") || !strings.Contains(body, "connect-src &#39;self&#39;") {
		t.Error("not the page of two runs that follows them")
	}
}

// stalled is a client that does not read its answer until it is released.
type stalled struct {
	*httptest.ResponseRecorder
	writing, released chan struct{}
}

func (s *stalled) Write(p []byte) (int, error) {
	close(s.writing)
	<-s.released
	return len(p), nil
}

// A client that does not read its answer does not lock the run for others.
func TestStalledClientsHoldNoLock(t *testing.T) {
	fsys := afero.NewMemMapFs()
	r := rundirtest.New(t, fsys, "/runs", "a")
	r.Steps(1, 10)
	s := New(Options{FS: fsys, Dir: "/runs"})
	h := s.Handler(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})
	for _, path := range []string{"/runs?id=a/1", "/data?id=a/1"} {
		req := httptest.NewRequest("GET", path, nil)
		req.Host = "localhost"
		req.Header.Set("Authorization", "Bearer "+s.token)
		w := &stalled{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
		var answered sync.WaitGroup
		answered.Go(func() { h.ServeHTTP(w, req) })
		<-w.writing
		if run := s.reader(r.Dir); run.TryLock() {
			run.Unlock()
		} else {
			t.Errorf("%s holds the lock of the run while it waits for its client", path)
		}
		close(w.released)
		answered.Wait()
	}
}

// listen reads server-sent events of a kind.
func (c *client) listen(path, kind string) (next func() string) {
	c.t.Helper()
	resp, err := c.Get(c.base + path)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { resp.Body.Close() })
	in := bufio.NewReader(resp.Body)
	return func() string {
		c.t.Helper()
		for found := false; ; {
			line, err := in.ReadString('\n')
			if err != nil {
				c.t.Fatal(err)
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok && found {
				return strings.TrimSpace(data)
			}
			found = strings.TrimSpace(line) == "event: "+kind
		}
	}
}

// A page that follows a run learns of every change, and then gets it.
func TestRunsAreFollowed(t *testing.T) {
	fsys := afero.NewMemMapFs()
	r := rundirtest.New(t, fsys, "/runs", "a")
	r.Tell(&event.RunStarted{Name: "a"})
	r.Log(0, "2026-01-02T12:00:00.000000Z <b>one\x1b[31m\n"+strings.Repeat("x", 1<<20)+"\n")
	r.Log(1, "2026-01-02T12:00:01.000000Z two\n")
	c := serve(t, fsys)
	changed, lines, own := c.listen("/events?id=a/1", "changed"), c.listen("/logs?id=a/1", "lines"), c.listen("/logs?id=a/1&rank=1", "lines")
	changed()
	var got []logLine
	if err := json.Unmarshal([]byte(lines()), &got); err != nil || len(got) != 3 || got[0].Text != "<b>one [31m" || len(got[1].Text) > longest+50 || got[2] != (logLine{"12:00:01.000", 1, "two"}) {
		t.Errorf("%v %.300v", err, got)
	}
	if text := own(); !strings.Contains(text, "two") || strings.Contains(text, "one") {
		t.Error(text)
	}
	for last := 5; last <= 15; last += 5 {
		r.Steps(last-4, last)
		changed()
		var d struct{ Runs []struct{ Step []int } }
		_, body := c.get("/data?id=a/1")
		if err := json.Unmarshal([]byte(body), &d); err != nil || len(d.Runs[0].Step) != last {
			t.Fatalf("%v %v, want %d steps", err, d, last)
		}
	}
	r.Log(1, "2026-01-02T12:00:02.000000Z three\n")
	if text := own(); !strings.Contains(text, "three") {
		t.Error(text)
	}
}

// Buttons signal the launcher of a run on this host, once it is sure which process that is.
func TestRunsAreSignalled(t *testing.T) {
	fsys := afero.NewMemMapFs()
	cmd := exec.Command("sh", "-c", `trap 'echo saved' USR1; trap 'echo stopped; exit 0' TERM; echo ready; while :; do sleep 0.05; done`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("the test runs a shell as the job, and there is none: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // it has ended unless the test failed
		_ = cmd.Wait()
	})
	said := bufio.NewScanner(out)
	said.Scan()
	write := func(name, host string, pid int, at time.Time) *rundirtest.Run {
		r := rundirtest.New(t, fsys, "/runs", name)
		r.At = at
		r.Tell(&event.RunStarted{Name: name}, &event.RankStarted{Host: host, PID: 1 << 22, LauncherPID: pid})
		return r
	}
	here := rundir.Hostname()
	write("here", here, cmd.Process.Pid, time.Now())
	write("elsewhere", here+"x", cmd.Process.Pid, time.Now())
	write("earlier", here, cmd.Process.Pid, rundirtest.Noon.AddDate(-1, 0, 0))
	ended := write("ended", here, cmd.Process.Pid, time.Now())
	ended.Summary(event.Summary{Status: "ok"})
	c := serve(t, fsys)
	for id, want := range map[string]string{"elsewhere/1": "is on host", "earlier/1": "no process", "ended/1": "has ended"} {
		if status, body := c.do("POST", "/stop", url.Values{"id": {id}}, nil); status != http.StatusConflict || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", id, status, body)
		}
	}
	for _, step := range [][2]string{{"/save", "saved"}, {"/stop", "stopped"}} {
		if status, body := c.do("POST", step[0], url.Values{"id": {"here/1"}}, nil); status != 200 {
			t.Fatal(step, status, body)
		}
		if !said.Scan() || said.Text() != step[1] {
			t.Fatalf("the process said %q, want %q", said.Text(), step[1])
		}
	}
	_ = cmd.Wait() // its exit code is that of sleep or of the trap
	if status, body := c.do("POST", "/stop", url.Values{"id": {"here/1"}}, nil); status != http.StatusConflict {
		t.Errorf("a process that has ended: %d %s", status, body)
	}
}
