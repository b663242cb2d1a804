package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trainctl/trainctl/e2e/rig"
)

// tracker is a tracking server of MLflow, as far as the observer "mlflow" uses it.
type tracker struct {
	*httptest.Server
	before func(w http.ResponseWriter, r *http.Request) (answered bool)

	mu     sync.Mutex
	status []string // of each run
	losses []int    // of each run
}

func newTracker(t *testing.T, before func(http.ResponseWriter, *http.Request) bool) *tracker {
	s := &tracker{before: before}
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.CloseClientConnections)
	return s
}

func (s *tracker) answer(w http.ResponseWriter, r *http.Request) {
	if s.before != nil && s.before(w, r) {
		return
	}
	var in struct {
		Run     string                 `json:"run_id"`
		Status  string                 `json:"status"`
		Metrics []struct{ Key string } `json:"metrics"`
	}
	_ = json.NewDecoder(r.Body).Decode(&in) // a GET has no body
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	_, _ = fmt.Sscan(in.Run, &n)
	switch path.Base(r.URL.Path) {
	case "get-by-name":
		_, _ = fmt.Fprint(w, `{"experiment": {"experiment_id": "1"}}`)
		return
	case "create":
		s.status, s.losses = append(s.status, "RUNNING"), append(s.losses, 0)
		_, _ = fmt.Fprintf(w, `{"run": {"info": {"run_id": "%d"}}}`, len(s.status)-1)
		return
	case "update":
		s.status[n] = in.Status
	}
	for _, m := range in.Metrics {
		if m.Key == "train/loss" {
			s.losses[n]++
		}
	}
	_, _ = fmt.Fprint(w, "{}")
}

// observed is the base configuration with the observer mlflow.
func (s *tracker) observed(closeTimeout time.Duration) string {
	_, base, _ := strings.Cut(rig.BaseConfig, "name = \"job\"\n")
	return fmt.Sprintf("%s\n[[observers]]\nplugin = \"mlflow\"\noptions = { uri = %q }\nclose_timeout = %q\n", base, s.URL, closeTimeout)
}

// A run is one run of the tracker, whoever starts its ranks, and with its end.
func TestObserversUnderEveryLauncher(t *testing.T) {
	t.Parallel()
	s := newTracker(t, nil)
	p := rig.PlaceWith(t, s.observed(time.Minute))
	p.Train(t).Expect(t, 0)
	p.Train(t, rig.Set("launch.ranks=threads")...).Expect(t, 0)
	port := rig.FreePort(t)
	other := p.StartRank(t, 1, 2, port)
	p.StartRank(t, 0, 2, port).Wait(t).Expect(t, 0)
	other.Wait(t).Expect(t, 0)
	endpoint := fmt.Sprint("127.0.0.1:", rig.FreePort(t))
	first := p.Node(0, endpoint, "--nproc-per-node", "1").Start(t)
	rig.Eventually(t, "the first node waits for the other", func() bool { return strings.Contains(first.Stderr.String(), "waiting for") })
	other = p.Node(1, endpoint, "--nproc-per-node", "1").Start(t)
	first.Wait(t).Expect(t, 0)
	other.Wait(t).Expect(t, 0)
	if got, want := fmt.Sprint(s.status, s.losses), "[FINISHED FINISHED FINISHED FINISHED] [8 8 8 8]"; got != want {
		t.Errorf("the tracker has %s, want %s", got, want)
	}
}

// A tracker that refuses, is slow or dies changes nothing, and the run says once what is wrong.
func TestTrackersThatFail(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	p.Train(t).Expect(t, 0)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	var dying *tracker
	var n atomic.Int32
	for i, c := range []struct {
		before func(w http.ResponseWriter, r *http.Request) bool
		close  time.Duration
		says   string
	}{
		{func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusUnauthorized); return true }, time.Minute,
			"answers 401 Unauthorized; fix: set MLFLOW_TRACKING_TOKEN"},
		{func(_ http.ResponseWriter, r *http.Request) bool {
			select {
			case <-time.After(10 * time.Second):
			case <-over:
			case <-r.Context().Done():
			}
			return false
		}, time.Second, "it did not take the rest within close_timeout = 1s"},
		{func(http.ResponseWriter, *http.Request) bool {
			count := n.Add(1)
			if count == 3 {
				_ = dying.Listener.Close()
				go dying.CloseClientConnections()
			}
			return count >= 3
		}, time.Minute, "fix: start it, or set the option uri"},
	} {
		s := newTracker(t, c.before)
		dying = s
		p.Configure(t, s.observed(c.close))
		r := p.Train(t).Expect(t, 0).Prints(t, `observer plugin "mlflow" missed `)
		if said := strings.Count(r.Stderr, c.says); said != 1 {
			t.Errorf("%q is said %d times:\n%s", c.says, said, r.Stderr)
		}
		rig.SameParams(t, p.Summary(t, 1), p.Summary(t, i+2))
	}
}
