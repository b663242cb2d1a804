package mlflow

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/base/pattern"
	"github.com/trainctl/trainctl/core/sdk"
)

// Variables are those of MLflow's own clients that the observer reads.
var Variables = []string{"MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "MLFLOW_EXPERIMENT_NAME"}

// Observer writes a run to a tracking server.
type Observer struct {
	client client
	run    string // its id at the server; "" before Open
	ended  bool   // the server knows that the run has ended
}

// New returns an observer that is not open.
func New() *Observer { return &Observer{} }

// Info implements sdk.Observer.
func (o *Observer) Info() sdk.Info {
	return sdk.Info{
		Kind: sdk.KindObserver, Name: "mlflow", Version: "1.0.0", Summary: "writes the run to an MLflow tracking server",
		Options: []sdk.Option{
			{Name: "uri", Type: sdk.String, Default: "", Doc: "Address of the tracking server, such as http://tracking:5000; empty: MLFLOW_TRACKING_URI. Credentials come from MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."},
			{Name: "experiment", Type: sdk.String, Default: "", Doc: "Name of the experiment, which is created if it does not exist; empty: MLFLOW_EXPERIMENT_NAME, or else the name of the run."},
			{Name: "run_name", Type: sdk.String, Default: "", Doc: "Name of the run; empty: the name of the run."},
		},
	}
}

// Open implements sdk.Observer. It creates the run, or continues the one that the process before has
// created.
func (o *Observer) Open(ctx context.Context, req sdk.ObserverRequest) (string, error) {
	uri := cmp.Or(req.Options.String("uri"), os.Getenv("MLFLOW_TRACKING_URI"))
	var err error
	if o.client, err = newClient(uri); err != nil {
		return "", err
	}
	if o.run = req.Resume; o.run != "" {
		return o.run, nil
	}
	experiment, err := o.client.experiment(ctx, cmp.Or(req.Options.String("experiment"), os.Getenv("MLFLOW_EXPERIMENT_NAME"), req.Name))
	if err != nil {
		return "", err
	}
	tags := []pair{{"mlflow.source.name", "trainctl"}, {"mlflow.source.type", "LOCAL"}, {"trainctl.run_dir", req.Dir}}
	if o.run, err = o.client.create(ctx, experiment, cmp.Or(req.Options.String("run_name"), req.Name), time.Now(), tags); err != nil {
		return "", err
	}
	return o.run, o.client.log(ctx, o.run, batch{Params: params(req.Config)})
}

// Observe implements sdk.Observer.
func (o *Observer) Observe(ctx context.Context, e *sdk.EventBatch) error {
	var b batch
	var done *runDone
	for i := range e.Records {
		r := &e.Records[i]
		if r.Kind == "run_done" {
			done = &runDone{}
			if err := r.Decode(done); err != nil {
				return err
			}
		}
		if err := b.add(r); err != nil {
			return err
		}
	}
	b.Tags = append(b.Tags, summaryTags(e.Summary)...)
	if err := o.client.log(ctx, o.run, b); err != nil || done == nil {
		return err
	}
	if err := o.client.update(ctx, o.run, done.status(), time.Now()); err != nil {
		return err
	}
	o.ended = true
	return nil
}

// Close implements sdk.Observer. A run whose end was not observed has failed.
func (o *Observer) Close() error {
	if o.run == "" || o.ended {
		return nil
	}
	o.ended = true
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return o.client.update(ctx, o.run, "FAILED", time.Now())
}

// runDone has the members of the event "run_done" that matter here.
type runDone struct {
	Status string `json:"status"`
}

// status is the run's status at the server.
func (d *runDone) status() string {
	switch d.Status {
	case "ok":
		return "FINISHED"
	case "preempted", "interrupted":
		return "KILLED"
	}
	return "FAILED"
}

// metric is a number of a step.
type metric struct {
	Key   string  `json:"key"`
	Value float64 `json:"value"`
	Time  int64   `json:"timestamp"` // milliseconds since 1970
	Step  int64   `json:"step"`
}

// curves are the numbers of an event that become metrics, by the kind of the event: the name of
// the member, and that of the metric.
var curves = map[string]map[string]string{
	"step": {
		"loss_mean": "train/loss", "accuracy": "train/accuracy", "lr": "train/lr", "grad_norm": "train/grad_norm", "scale": "train/loss_scale",
		"step_ms": "perf/step_ms", "data_ms": "perf/data_ms", "comm_ms": "perf/comm_ms", "samples_per_sec": "perf/samples_per_sec", "tokens_per_sec": "perf/tokens_per_sec",
	},
	"eval": {"loss": "eval/loss", "accuracy": "eval/accuracy", "perplexity": "eval/perplexity", "bits_per_byte": "eval/bits_per_byte"},
}

// pair is a parameter or a tag.
type pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// tagged are the members of events that become tags.
var tagged = map[string]map[string]string{
	"run_started": {"version": "trainctl.version", "world_size": "trainctl.world_size", "device": "trainctl.device", "backend": "trainctl.backend", "precision": "trainctl.precision", "continues": "trainctl.continues", "restart": "trainctl.restarts"},
	"rank_failed": {"message": "trainctl.failure"},
	"run_done":    {"status": "trainctl.status", "exit_code": "trainctl.exit_code"},
}

// add adds what becomes of an event.
func (b *batch) add(r *sdk.Event) error {
	metrics, tags := curves[r.Kind], tagged[r.Kind]
	if metrics == nil && tags == nil {
		return nil
	}
	var members map[string]any
	if err := r.Decode(&members); err != nil {
		return err
	}
	step, _ := members["step"].(float64)
	for _, member := range slices.Sorted(maps.Keys(metrics)) {
		if v, ok := members[member].(float64); ok { // null is not finite
			b.Metrics = append(b.Metrics, metric{metrics[member], v, r.Time.UnixMilli(), int64(step)})
		}
	}
	for _, member := range slices.Sorted(maps.Keys(tags)) {
		if v, ok := members[member]; ok && v != "" {
			b.Tags = append(b.Tags, pair{tags[member], text(v)})
		}
	}
	return nil
}

// summaryTags are taken from summary.json.
func summaryTags(summary []byte) (tags []pair) {
	var s struct {
		Params []string `json:"params_sha256"`
	}
	if json.Unmarshal(summary, &s) == nil && len(s.Params) > 0 {
		tags = append(tags, pair{"trainctl.params_sha256", s.Params[0]})
	}
	return tags
}

// params are the settings of a configuration. Settings that are empty say nothing.
func params(config map[string]any) (list []pair) {
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if v := text(config[key]); v != "" {
			list = append(list, pair{key, v})
		}
	}
	return list
}

// text is a value as MLflow shows it.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case nil:
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// names are what MLflow allows in the names of metrics and parameters.
var names = pattern.Lazy{Expr: `[^A-Za-z0-9_\-. /]+`}

// name is a key as MLflow takes it: model.layers[0].bias is model.layers.0.bias.
func name(key string) string {
	key = names.Get().ReplaceAllString(strings.NewReplacer("[", ".", "]", "").Replace(key), "_")
	return key[:min(len(key), maxKey)]
}
