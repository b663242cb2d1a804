package mlflow

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

// server answers as a tracking server does, and refuses what MLflow documents as too much.
type server struct {
	*httptest.Server
	mu          sync.Mutex
	experiments map[string]string
	runs        map[string]*run
	batches     int
	busy        int // requests that are answered with 503 first
	problems    []string
}

// run is what the server knows of a run.
type run struct {
	name, status string
	metrics      map[string][]metric
	params, tags map[string]string
}

func newServer(t *testing.T) *server {
	s := &server{experiments: map[string]string{}, runs: map[string]*run{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.Close)
	t.Cleanup(func() {
		for _, p := range s.problems {
			t.Error(p)
		}
	})
	return s
}

// request has the members of all requests.
type request struct {
	Name       string `json:"name"`
	Experiment string `json:"experiment_id"`
	RunName    string `json:"run_name"`
	Run        string `json:"run_id"`
	Status     string `json:"status"`
	batch
}

func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var in request
	if r.ContentLength > maxBytes {
		s.problems = append(s.problems, fmt.Sprintf("a request of %d bytes", r.ContentLength))
	}
	if r.Method == http.MethodPost && json.NewDecoder(r.Body).Decode(&in) != nil {
		s.problems = append(s.problems, r.URL.Path+": not JSON")
	}
	if s.busy > 0 {
		s.busy--
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	refuse := func(status int, code string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error_code": %q, "message": "of the test"}`, code)
	}
	switch call := strings.TrimPrefix(r.URL.Path, "/api/2.0/mlflow/"); call {
	case "experiments/get-by-name":
		id := s.experiments[r.URL.Query().Get("experiment_name")]
		if id == "" {
			refuse(http.StatusNotFound, "RESOURCE_DOES_NOT_EXIST")
			return
		}
		fmt.Fprintf(w, `{"experiment": {"experiment_id": %q}}`, id)
	case "experiments/create":
		s.experiments[in.Name] = fmt.Sprint(len(s.experiments) + 1)
		fmt.Fprintf(w, `{"experiment_id": %q}`, s.experiments[in.Name])
	case "runs/create":
		id := fmt.Sprintf("run%d", len(s.runs)+1)
		s.runs[id] = &run{name: in.RunName, status: "RUNNING", metrics: map[string][]metric{}, params: map[string]string{}, tags: map[string]string{}}
		s.runs[id].keep(in.batch)
		fmt.Fprintf(w, `{"run": {"info": {"run_id": %q}}}`, id)
	case "runs/log-batch", "runs/update":
		known := s.runs[in.Run]
		if known == nil {
			refuse(http.StatusNotFound, "RESOURCE_DOES_NOT_EXIST")
			return
		}
		if in.Status != "" {
			known.status = in.Status
		}
		s.batches++
		s.check(in.batch)
		known.keep(in.batch)
		fmt.Fprint(w, "{}")
	default:
		refuse(http.StatusNotFound, "ENDPOINT_NOT_FOUND")
	}
}

var allowed = regexp.MustCompile(`^[A-Za-z0-9_\-. /]{1,250}$`)

// check compares a request with the limits of "Log Batch", "Log Param" and "Set Tag".
func (s *server) check(b batch) {
	if n := len(b.Metrics) + len(b.Params) + len(b.Tags); n > 1000 || len(b.Params) > 100 || len(b.Tags) > 100 {
		s.problems = append(s.problems, fmt.Sprintf("a batch of %d metrics, %d params, %d tags", len(b.Metrics), len(b.Params), len(b.Tags)))
	}
	for _, p := range b.Params {
		if !allowed.MatchString(p.Key) || len(p.Value) > 500 {
			s.problems = append(s.problems, fmt.Sprintf("parameter %q of %d bytes", p.Key, len(p.Value)))
		}
	}
	for _, m := range b.Metrics {
		if !allowed.MatchString(m.Key) || m.Time <= 0 {
			s.problems = append(s.problems, fmt.Sprintf("metric %+v", m))
		}
	}
}

func (r *run) keep(b batch) {
	for _, m := range b.Metrics {
		r.metrics[m.Key] = append(r.metrics[m.Key], m)
	}
	for _, p := range b.Params {
		r.params[p.Key] = p.Value
	}
	for _, p := range b.Tags {
		r.tags[p.Key] = p.Value
	}
}

func TestContract(t *testing.T) {
	s := newServer(t)
	sdktest.Observer(t, sdktest.ObserverOptions{
		New:     func(testing.TB) sdk.Observer { return New() },
		Options: map[string]any{"uri": s.URL, "experiment": "conformance"},
		Refused: map[string]map[string]any{"uri": {"uri": 7}},
	})
}

// A long run with many settings, at a server that is busy at first, arrives whole and within the
// limits of each request.
func TestRunArrives(t *testing.T) {
	s := newServer(t)
	s.busy = 2
	config := map[string]any{"run.name": "digits", "model.layers[0].bias": true, "optimizer.betas": []any{0.9, 0.95}, "empty": "", "long": strings.Repeat("ä", 400)}
	for i := range 250 {
		config[fmt.Sprint("dataset.options.key", i)] = float64(i)
	}
	o := New()
	resume, err := o.Open(t.Context(), sdk.ObserverRequest{Options: sdk.Options{"uri": s.URL + "/"}, Name: "digits", Dir: "/runs/digits/1", Config: config})
	if err != nil || resume != "run1" {
		t.Fatal(resume, err)
	}
	b := &sdk.EventBatch{Summary: json.RawMessage(`{"params_sha256": ["00ff", "00ff"]}`)}
	tell := func(line string) {
		e := sdk.Event{JSON: json.RawMessage(line)}
		if err := json.Unmarshal(e.JSON, &e); err != nil {
			t.Fatal(err)
		}
		b.Records = append(b.Records, e)
	}
	const head = `{"ts":"2026-01-02T03:04:05.000006Z","rank":0,"event":`
	tell(head + `"run_started","version":"v1.2.3","world_size":2,"device":"cpu"}`)
	for step := 1; step <= 2500; step++ {
		tell(fmt.Sprintf(head+`"step","step":%d,"loss_mean":%v,"lr":0.1}`, step, 1/float64(step)))
	}
	tell(head + `"step","step":2501,"loss_mean":null,"lr":0.1}`)
	tell(head + `"eval","step":2501,"loss":0.25,"accuracy":0.9}`)
	tell(head + `"run_done","status":"ok","exit_code":0}`)
	if err := o.Observe(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	got := s.runs["run1"]
	if got.status != "FINISHED" || got.name != "digits" || s.experiments["digits"] != "1" {
		t.Errorf("%+v in %v", got, s.experiments)
	}
	loss := got.metrics["train/loss"]
	if len(loss) != 2500 || loss[9].Step != 10 || loss[9].Value != 0.1 || loss[9].Time != 1767323045000 || len(got.metrics["train/lr"]) != 2501 {
		t.Errorf("%d losses, the tenth is %+v; %d learning rates", len(loss), loss[9], len(got.metrics["train/lr"]))
	}
	if got.metrics["eval/accuracy"][0].Value != 0.9 || got.tags["trainctl.params_sha256"] != "00ff" || got.tags["trainctl.world_size"] != "2" {
		t.Errorf("%v %v", got.metrics["eval/accuracy"], got.tags)
	}
	if len(got.params) != 254 || got.params["model.layers.0.bias"] != "true" || got.params["optimizer.betas"] != "[0.9,0.95]" || len(got.params["long"]) != 500 {
		t.Errorf("%d params: %v", len(got.params), got.params)
	}
}

// A process that replaces another continues its run; a run whose end nobody saw has failed.
func TestRunContinues(t *testing.T) {
	s := newServer(t)
	request := sdk.ObserverRequest{Options: sdk.Options{"uri": s.URL}, Name: "digits"}
	for range 2 {
		var err error
		o := New()
		if request.Resume, err = o.Open(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.runs) != 1 || s.runs["run1"].status != "FAILED" {
		t.Errorf("%d runs, the first %+v", len(s.runs), s.runs["run1"])
	}
}

func TestWrongServers(t *testing.T) {
	s := newServer(t)
	for uri, want := range map[string]string{
		"": "no tracking server is given", "tracking:5000": "is not the address of a tracking server", s.URL + "/nowhere": "answers 404 Not Found: ENDPOINT_NOT_FOUND of the test",
	} {
		t.Setenv("MLFLOW_TRACKING_URI", uri)
		_, err := New().Open(t.Context(), sdk.ObserverRequest{Options: sdk.Options{}, Name: "digits"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", uri, err, want)
		}
	}
}
