package mlflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of a request and of its parts, which every MLflow server accepts
// (https://mlflow.org/docs/latest/rest-api.html, Log Batch, Log Param, Set Tag).
const (
	maxItems  = 1000 // metrics, params and tags of a request together
	maxParams = 100
	maxTags   = 100
	maxBytes  = 1 << 20 // of a request
	maxKey    = 250     // bytes
	maxParam  = 500     // bytes of a value
	maxTag    = 5000    // bytes of a value
)

// client calls a tracking server.
type client struct {
	base string // URL without a slash at its end
	http *http.Client
}

func newClient(uri string) (client, error) {
	u, err := url.Parse(uri)
	switch {
	case uri == "":
		return client{}, errors.New("no tracking server is given; set the option uri, or MLFLOW_TRACKING_URI")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return client{}, fmt.Errorf("%q is not the address of a tracking server; write for example http://tracking:5000", uri)
	}
	return client{strings.TrimSuffix(uri, "/"), &http.Client{}}, nil
}

// failure is an error that the server reports.
type failure struct {
	Code    string `json:"error_code"`
	Message string `json:"message"`
	status  string
	refused bool // for its credentials
}

func (f *failure) Error() string {
	text := strings.Trim(fmt.Sprintf("the MLflow server answers %s: %s %s", f.status, f.Code, strings.TrimSpace(f.Message)), ": ")
	if f.refused {
		text += "; fix: set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, to credentials that it accepts"
	}
	return text
}

// attempts is how often a request is made that fails for a reason that may pass.
const attempts = 3

// call makes a request; in is its JSON body, nil for a GET. A server that is busy or
// cannot be reached is asked again.
func (c client) call(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	for i := 1; ; i++ {
		again, err := c.once(ctx, method, path, body, out)
		if err == nil || !again || i == attempts {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Duration(i) * 250 * time.Millisecond):
		}
	}
}

// once makes a request. again says whether it may succeed later.
func (c client) once(ctx context.Context, method, path string, body []byte, out any) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+"/api/2.0/mlflow/"+path, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/json")
	if token := os.Getenv("MLFLOW_TRACKING_TOKEN"); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	} else if user := os.Getenv("MLFLOW_TRACKING_USERNAME"); user != "" {
		r.SetBasicAuth(user, os.Getenv("MLFLOW_TRACKING_PASSWORD"))
	}
	reply, err := c.http.Do(r)
	if err != nil {
		return ctx.Err() == nil, fmt.Errorf("the MLflow server cannot be reached: %w; fix: start it, or set the option uri to its address", err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxBytes))
	if err != nil {
		return true, fmt.Errorf("the MLflow server's answer breaks off: %w", err)
	}
	if reply.StatusCode != http.StatusOK {
		f := &failure{status: reply.Status, refused: reply.StatusCode == http.StatusUnauthorized || reply.StatusCode == http.StatusForbidden}
		if json.Unmarshal(text, f) != nil {
			f.Message = string(text[:min(len(text), 200)])
		}
		return reply.StatusCode >= 500 || reply.StatusCode == http.StatusTooManyRequests, f
	}
	if out == nil {
		return false, nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return false, fmt.Errorf("the MLflow server's answer to %s: %w", path, err)
	}
	return false, nil
}

// experiment returns the id of the experiment with a name, which is created if there is none.
func (c client) experiment(ctx context.Context, name string) (string, error) {
	id, err := c.find(ctx, name)
	var f *failure
	if !errors.As(err, &f) || f.Code != "RESOURCE_DOES_NOT_EXIST" {
		return id, err
	}
	var made struct {
		ID string `json:"experiment_id"`
	}
	err = c.call(ctx, http.MethodPost, "experiments/create", map[string]any{"name": name}, &made)
	if errors.As(err, &f) && f.Code == "RESOURCE_ALREADY_EXISTS" { // another run was faster
		return c.find(ctx, name)
	}
	return made.ID, err
}

func (c client) find(ctx context.Context, name string) (string, error) {
	var found struct {
		Experiment struct {
			ID string `json:"experiment_id"`
		} `json:"experiment"`
	}
	err := c.call(ctx, http.MethodGet, "experiments/get-by-name?experiment_name="+url.QueryEscape(name), nil, &found)
	return found.Experiment.ID, err
}

// create creates a run and returns its id.
func (c client) create(ctx context.Context, experiment, name string, begin time.Time, tags []pair) (string, error) {
	var made struct {
		Run struct {
			Info struct {
				ID string `json:"run_id"`
			} `json:"info"`
		} `json:"run"`
	}
	err := c.call(ctx, http.MethodPost, "runs/create", map[string]any{
		"experiment_id": experiment, "run_name": name, "start_time": begin.UnixMilli(), "tags": limited(tags, maxTag),
	}, &made)
	if err == nil && made.Run.Info.ID == "" {
		err = errors.New("the MLflow server created a run without an id")
	}
	return made.Run.Info.ID, err
}

func (c client) update(ctx context.Context, run, status string, end time.Time) error {
	return c.call(ctx, http.MethodPost, "runs/update", map[string]any{"run_id": run, "status": status, "end_time": end.UnixMilli()}, nil)
}

// batch is what one or more calls of runs/log-batch write.
type batch struct {
	Metrics []metric `json:"metrics,omitempty"`
	Params  []pair   `json:"params,omitempty"`
	Tags    []pair   `json:"tags,omitempty"`
}

// log writes a batch in as many requests as the limits need.
func (c client) log(ctx context.Context, run string, b batch) error {
	for i := range b.Params {
		b.Params[i].Key = name(b.Params[i].Key)
	}
	b.Params, b.Tags = limited(b.Params, maxParam), limited(b.Tags, maxTag)
	for len(b.Metrics)+len(b.Params)+len(b.Tags) > 0 {
		var part batch
		part.Params, b.Params = cut(b.Params, maxParams)
		part.Tags, b.Tags = cut(b.Tags, maxTags)
		part.Metrics, b.Metrics = cut(b.Metrics, maxItems-len(part.Params)-len(part.Tags))
		body := struct {
			Run string `json:"run_id"`
			batch
		}{run, part}
		if err := c.call(ctx, http.MethodPost, "runs/log-batch", body, nil); err != nil {
			return err
		}
	}
	return nil
}

// cut divides a list after its first n elements.
func cut[T any](list []T, n int) (first, rest []T) {
	n = min(n, len(list))
	return list[:n], list[n:]
}

// limited shortens values.
func limited(list []pair, n int) []pair {
	for i, p := range list {
		end := min(n, len(p.Value))
		for end < len(p.Value) && end > 0 && !utf8.RuneStart(p.Value[end]) {
			end--
		}
		list[i].Value = p.Value[:end]
	}
	return list
}
