package event

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Prometheus serves the newest values of a run at /metrics, in the text
// exposition format 0.0.4.
type Prometheus struct {
	server *http.Server
	addr   string
	done   chan error

	mu              sync.Mutex
	trains          bool // this rank has begun to train
	run             RunStarted
	step            StepDone
	eval            EvalDone
	samples         int64
	skipped         int64
	saved           int64
	failed          int64
	backendRestarts int64
	pluginRestarts  int64
}

// NewPrometheus listens on addr ("127.0.0.1:9100"; port 0 takes a free one)
// until Close.
func NewPrometheus(addr string) (*Prometheus, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w (choose another address in [metrics] prometheus)", err)
	}
	p := &Prometheus{addr: l.Addr().String(), done: make(chan error, 1), step: StepDone{Accuracy: -1}, eval: EvalDone{Accuracy: -1}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", p.serve)
	mux.HandleFunc("GET /ready", p.ready)
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
	go func() { p.done <- p.server.Serve(l) }()
	return p, nil
}

// Addr is the address that it listens on.
func (p *Prometheus) Addr() string { return p.addr }

// Emit stores the values to serve.
func (p *Prometheus) Emit(r Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := r.Event.(type) {
	case *RunStarted:
		p.run = *e
	case *PhaseChanged:
		p.trains = p.trains || e.Phase == "train"
	case *StepDone:
		if r.Rank > 0 {
			return
		}
		p.step = *e
		p.samples += int64(e.Samples)
		if e.Skipped {
			p.skipped++
		}
	case *EvalDone:
		p.eval = *e
	case *CheckpointSaved:
		p.saved++
	case *BackendRestarted:
		if r.Rank <= 0 {
			p.backendRestarts++
		}
	case *PluginRestarted:
		p.pluginRestarts++
	case *RankFailed:
		p.failed++
	}
}

// Close stops listening; requests in progress get a second to end.
func (p *Prometheus) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := p.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, p.server.Close())
	}
	if serr := <-p.done; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}

func (p *Prometheus) serve(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(p.text()) // the scraper may have disconnected
}

// ready answers 200 once the rank trains, else 503.
func (p *Prometheus) ready(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.trains {
		http.Error(w, "the ranks do not train yet", http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("training\n"))
}

func (p *Prometheus) text() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b exposition
	fmt.Fprintf(&b, "# HELP trainctl_run_info What runs.\n# TYPE trainctl_run_info gauge\ntrainctl_run_info{name=\"%s\",backend=\"%s\",precision=\"%s\",version=\"%s\"} 1\n",
		label(p.run.Name), label(p.run.Backend), label(p.run.Precision), label(p.run.Version))
	b.metric("world_size", "gauge", "Ranks of the run.", float64(p.run.WorldSize))
	b.metric("steps_total", "counter", "Optimizer steps done, skipped ones included.", float64(p.step.Step))
	b.metric("steps_skipped_total", "counter", "Steps skipped for gradients that were not finite.", float64(p.skipped))
	b.metric("samples_total", "counter", "Training samples seen by all ranks since this process started.", float64(p.samples))
	b.metric("epoch", "gauge", "Epoch in progress, from 0.", float64(p.step.Epoch))
	b.metric("train_loss", "gauge", "Loss of the last step, mean over ranks.", p.step.LossMean)
	b.metric("learning_rate", "gauge", "Learning rate of the last step.", p.step.LR)
	b.metric("step_seconds", "gauge", "Duration of the last step.", p.step.StepMS/1e3)
	b.metric("data_wait_seconds", "gauge", "Part of the last step spent waiting for data.", p.step.DataMS/1e3)
	b.metric("comm_exposed_seconds", "gauge", "Part of the last step that the rank waited for communication or for slower ranks.", p.step.CommMS/1e3)
	b.metric("samples_per_second", "gauge", "Throughput of the last step over all ranks.", p.step.SamplesPerSec)
	if p.step.Tokens != 0 {
		b.metric("tokens_per_second", "gauge", "Tokens per second of the last step over all ranks.", p.step.TokensPerSec)
	}
	if p.step.Scale != 0 {
		b.metric("loss_scale", "gauge", "Loss scale.", p.step.Scale)
	}
	if p.step.GradNorm != 0 {
		b.metric("grad_norm", "gauge", "Gradient norm before clipping.", p.step.GradNorm)
	}
	if p.eval.Samples > 0 {
		b.metric("eval_loss", "gauge", "Loss of the last evaluation.", p.eval.Loss)
		if !(p.eval.Accuracy < 0) {
			b.metric("eval_accuracy", "gauge", "Accuracy of the last evaluation.", p.eval.Accuracy)
		}
		if p.eval.Perplexity != 0 {
			b.metric("eval_perplexity", "gauge", "Perplexity of the last evaluation.", p.eval.Perplexity)
		}
	}
	b.metric("checkpoints_saved_total", "counter", "Checkpoints made durable.", float64(p.saved))
	b.metric("backend_restarts_total", "counter", "Groups of backend plugins that were replaced.", float64(p.backendRestarts))
	b.metric("plugin_restarts_total", "counter", "Data set and precision plugins that were replaced, of all ranks.", float64(p.pluginRestarts))
	b.metric("rank_failures_total", "counter", "Ranks that died.", float64(p.failed))
	return b.Bytes()
}

type exposition struct{ bytes.Buffer }

func (b *exposition) metric(name, kind, help string, v float64) {
	fmt.Fprintf(b, "# HELP trainctl_%s %s\n# TYPE trainctl_%s %s\ntrainctl_%s %s\n", name, help, name, kind, name, sample(v))
}

func sample(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 0):
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func label(s string) string { return labelEscapes.Replace(s) }

var _ Sink = (*Prometheus)(nil)
