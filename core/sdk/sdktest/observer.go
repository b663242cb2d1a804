package sdktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// ObserverOptions say what the observer suite runs on.
type ObserverOptions struct {
	// New returns an instance before Open was called, in this process or, with [ObserverPlugin],
	// in another.
	New func(t testing.TB) sdk.Observer

	Options              map[string]any            // the plugin's table as a user would write it
	Refused              map[string]map[string]any // tables that must be refused, as in [DatasetOptions]
	Timeout, CallTimeout time.Duration             // of each check, and of each call; default 3 minutes and 30 s
}

// Observer runs the conformance suite for observers, see [sdk.Observer]. It shows the plugin
// several whole runs: what they leave behind, such as files or runs at a tracking server, is for a
// test of the plugin's own to compare.
func Observer(t *testing.T, o ObserverOptions) {
	t.Helper()
	runChecks(t, o.Timeout, observerChecks, func(t testing.TB) *observerSuite { return &observerSuite{ObserverOptions: o, t: t} })
}

var observerChecks = []suiteCheck[*observerSuite]{
	{"Info is complete", func(_ context.Context, s *observerSuite) error { return constantInfo(s.instance(), sdk.KindObserver) }},
	{"names the key of a wrong option", checkObserverRefused},
	{"takes the events of a run", checkRun},
	{"takes a run that fails", checkFailedRun},
	{"takes events that it does not know", checkUnknownEvents},
	{"takes numbers that are not finite", checkNulls},
	{"takes batches after dropped events", checkDropped},
	{"continues in another process", checkResume},
	{"closes in every state", checkObserverClose},
}

type observerSuite struct {
	ObserverOptions
	processes
	t testing.TB
}

// instance returns a new instance with bounded calls.
func (s *observerSuite) instance() sdk.Observer {
	o := &timedObserver{Observer: s.New(s.t)}
	o.limit = orDefault(s.CallTimeout, stepTimeout)
	if r, ok := o.Observer.(*remoteObserver); ok {
		o.limit = s.remote(r.log, &r.Timeout, o.limit)
	}
	return o
}

// open makes an instance and opens it with a table.
func (s *observerSuite) open(ctx context.Context, table map[string]any, resume string) (sdk.Observer, string, error) {
	o := s.instance()
	s.t.Cleanup(func() { _ = o.Close() })
	options, problems := sdk.CheckOptions("", o.Info().Options, merged(s.Options, table))
	if err := problems.Err(); err != nil {
		return nil, "", err
	}
	resume, err := o.Open(ctx, sdk.ObserverRequest{
		Options: options, Name: "conformance", Dir: s.t.TempDir(), Resume: resume, Log: slog.New(slog.DiscardHandler),
		Config: map[string]any{"run.name": "conformance", "optimizer.lr": 0.1, "train.epochs": 2.0, "run.deterministic": true, "optimizer.betas": []any{0.9, 0.95}},
	})
	if err != nil {
		err = fmt.Errorf("Open: %w", err)
	}
	return o, resume, err
}

func checkObserverRefused(ctx context.Context, s *observerSuite) error {
	return refused(s.Refused, func(table map[string]any) error {
		_, _, err := s.open(ctx, table, "")
		return err
	})
}

// told is a run as the events that an observer gets.
type told struct {
	seq     int
	records []sdk.Event
}

// fields are what the events of a kind have, besides what all have.
type fields map[string]any

// tell adds an event of rank 0.
func (r *told) tell(kind string, f fields) {
	r.seq++
	all := fields{"schema": 1, "seq": r.seq, "ts": "2026-01-02T03:04:05.000006Z", "rank": 0, "event": kind}
	maps.Copy(all, f)
	line, err := json.Marshal(all)
	e := sdk.Event{JSON: line}
	if err == nil {
		err = json.Unmarshal(line, &e)
	}
	if err != nil {
		panic(err) // the suite's own
	}
	r.records = append(r.records, e)
}

// begin tells how a run begins.
func (r *told) begin() {
	r.tell("run_started", fields{"name": "conformance", "version": "v0.0.0", "run_dir": "/runs/conformance/1", "config": "train.toml", "world_size": 2,
		"device": "cpu", "backend": "tcp", "precision": "none", "epochs": 2, "steps_per_epoch": 0, "steps": 0, "restart": 0})
	r.tell("rank_started", fields{"host": "localhost", "pid": 1, "local_rank": 0})
	r.tell("dataset", fields{"plugin": "synthetic", "source": "generated", "train_samples": 600, "test_samples": 100, "classes": []string{"0", "1"}})
	r.tell("plan", fields{"parameters": 7850, "buckets": 1, "epochs": 2, "steps_per_epoch": 10, "steps": 20})
}

func (r *told) steps(from, to int) {
	for step := from; step <= to; step++ {
		r.tell("step", fields{"step": step, "epoch": step / 11, "loss": 1 / float64(step), "loss_mean": 1 / float64(step), "accuracy": 0.5, "lr": 0.1,
			"step_ms": 3, "data_ms": 0.1, "comm_ms": 0.2, "samples": 64, "samples_per_sec": 20000})
	}
}

func (r *told) end(status string, code int) {
	r.tell("run_done", fields{"status": status, "step": 20, "loss": 0.05, "accuracy": 0.9, "total_s": 1.5, "exit_code": code})
}

// batch returns the events since the last call.
func (r *told) batch() *sdk.EventBatch {
	b := &sdk.EventBatch{Records: r.records}
	r.records = nil
	return b
}

// summary is that of a run that ended.
func summary(status string) json.RawMessage {
	return fmt.Appendf(nil, `{"schema": 1, "name": "conformance", "status": %q, "world_size": 2, "device": "cpu", "steps": 20,
  "train": {"loss": 0.05, "samples_per_sec": 20000}, "eval": {"loss": 0.4, "accuracy": 0.8}, "params_sha256": ["00ff", "00ff"]}`, status)
}

// show opens an observer and gives it batches.
func (s *observerSuite) show(ctx context.Context, batches ...*sdk.EventBatch) error {
	o, _, err := s.open(ctx, nil, "")
	for i := 0; err == nil && i < len(batches); i++ {
		if err = o.Observe(ctx, batches[i]); err != nil {
			err = fmt.Errorf("batch %d of %d events: %w", i, len(batches[i].Records), err)
		}
	}
	if err == nil {
		err = o.Close()
	}
	return err
}

func checkRun(ctx context.Context, s *observerSuite) error {
	var batches []*sdk.EventBatch
	r := &told{}
	r.begin()
	batches = append(batches, r.batch())
	r.steps(1, 10)
	r.tell("eval", fields{"step": 10, "epoch": 1, "loss": 0.4, "accuracy": 0.8, "samples": 100, "took_ms": 2})
	r.tell("checkpoint_saved", fields{"step": 10, "path": "/runs/conformance/1/checkpoints/step-10", "bytes": 1000, "pause_ms": 1, "took_ms": 2, "best": true})
	batches = append(batches, r.batch())
	r.steps(11, 1010)                               // as many as a batch may have, and more
	batches = append(batches, r.batch(), r.batch()) // and none
	r.end("ok", 0)
	last := r.batch()
	last.Summary = summary("ok")
	return s.show(ctx, append(batches, last)...)
}

func checkFailedRun(ctx context.Context, s *observerSuite) error {
	r := &told{}
	r.begin()
	r.steps(1, 3)
	r.tell("plugin_failed", fields{"type": "backend", "name": "tcp", "pid": 12, "operation": "all_reduce #12", "hung": false, "cause": "the process ended"})
	r.tell("rank_failed", fields{"rank": -1, "failed_rank": 1, "host": "localhost", "pid": 13, "exit_code": 1, "message": "gone", "last_lines": []string{"last words"}})
	r.end("failed", 1)
	b := r.batch()
	b.Summary = summary("failed")
	return s.show(ctx, b)
}

// checkUnknownEvents shows what a newer trainctl may send.
func checkUnknownEvents(ctx context.Context, s *observerSuite) error {
	r := &told{}
	r.begin()
	r.tell("not_yet_invented", fields{"rank": -1, "what": []any{1, fields{"a": nil}}})
	r.tell("step", fields{"step": 1, "epoch": 0, "loss": 1, "loss_mean": 1, "lr": 0.1, "another": fields{"a": 1}})
	return s.show(ctx, r.batch())
}

// checkNulls shows a run that diverges: numbers that are not finite are null.
func checkNulls(ctx context.Context, s *observerSuite) error {
	r := &told{}
	r.begin()
	r.tell("step", fields{"step": 1, "epoch": 0, "loss": nil, "loss_mean": nil, "lr": 0.1, "grad_norm": nil, "samples_per_sec": nil})
	r.tell("eval", fields{"step": 1, "epoch": 0, "loss": nil, "accuracy": nil, "samples": 10})
	r.tell("run_done", fields{"status": "diverged", "step": 1, "loss": nil, "total_s": 1, "exit_code": 5})
	b := r.batch()
	b.Summary = json.RawMessage(`{"schema":1,"status":"diverged","steps":1,"train":{"loss":null},"params_sha256":[]}`)
	return s.show(ctx, b)
}

// checkDropped shows what a slow observer gets: batches that lack events, even the first ones.
func checkDropped(ctx context.Context, s *observerSuite) error {
	r := &told{}
	r.begin()
	r.batch()
	r.steps(5, 8)
	b := r.batch()
	b.Dropped = 8
	r.end("ok", 0)
	return s.show(ctx, b, r.batch())
}

// checkResume opens an instance in place of another one, which is not closed before.
func checkResume(ctx context.Context, s *observerSuite) error {
	r := &told{}
	r.begin()
	first, resume, err := s.open(ctx, nil, "")
	if err == nil {
		err = first.Observe(ctx, r.batch())
	}
	if err != nil {
		return err
	}
	second, again, err := s.open(ctx, nil, resume)
	if err != nil {
		return fmt.Errorf("with Resume %q: %w", resume, err)
	}
	if resume != "" && again == "" {
		return fmt.Errorf("Open returned %q for the process that replaces it, and that process returned nothing for the one after it", resume)
	}
	r.steps(1, 2)
	r.end("ok", 0)
	return errors.Join(second.Observe(ctx, r.batch()), second.Close())
}

func checkObserverClose(ctx context.Context, s *observerSuite) error {
	if err := s.instance().Close(); err != nil {
		return fmt.Errorf("Close before Open: %w", err)
	}
	o, _, err := s.open(ctx, nil, "")
	if err != nil {
		return err
	}
	return closesTwice(o)
}

// ObserverPlugin gives [ObserverOptions] instances that are plugin processes, one each, started
// by the host from a path or a built-in name. The output of a failed check includes the last
// lines that the processes printed.
func ObserverPlugin(h *host.Host, plugin string) func(testing.TB) sdk.Observer {
	return inProcesses(h, plugin, (*host.Host).StartObserver, func(o *host.Observer, log *logTail) sdk.Observer { return &remoteObserver{Observer: o, log: log} })
}

// remoteObserver is a plugin process as an instance.
type remoteObserver struct {
	*host.Observer
	log *logTail
}

func (r *remoteObserver) Open(ctx context.Context, req sdk.ObserverRequest) (string, error) {
	err := r.Observer.Open(ctx, req)
	return r.Resume(), err
}

func (r *remoteObserver) Observe(ctx context.Context, e *sdk.EventBatch) error {
	var lines [][]byte
	for i := range e.Records {
		lines = append(lines, e.Records[i].JSON)
	}
	return r.Observer.Observe(ctx, lines, e.Dropped, e.Summary)
}

// Close may be called more than once.
func (r *remoteObserver) Close() error { return closeProcess(r.Observer) }

// timedObserver is an observer whose calls take no longer than limit.
type timedObserver struct {
	sdk.Observer
	timed
}

func (o *timedObserver) Open(ctx context.Context, r sdk.ObserverRequest) (resume string, err error) {
	return bounded(ctx, &o.timed, "Open", func(ctx context.Context) (string, error) { return o.Observer.Open(ctx, r) })
}

func (o *timedObserver) Observe(ctx context.Context, e *sdk.EventBatch) error {
	return o.bound(ctx, "Observe", func(ctx context.Context) error { return o.Observer.Observe(ctx, e) })
}

func (o *timedObserver) Close() error {
	return o.bound(context.Background(), "Close", func(context.Context) error { return o.Observer.Close() })
}
