package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"
	"go.uber.org/fx"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/job/secret"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest/membackend"
	"github.com/trainctl/trainctl/core/train"
	"github.com/trainctl/trainctl/plugins/amp"
	nccl "github.com/trainctl/trainctl/plugins/backend-nccl"
	tcp "github.com/trainctl/trainctl/plugins/backend-tcp"
	"github.com/trainctl/trainctl/plugins/datasets/synthetic"
)

// builtins are served by this test's own executable, as trainctl's are by trainctl's.
var builtins = []host.Builtin{
	{Kind: sdk.KindBackend, Name: "tcp", Plugin: sdk.Plugin{Backend: func() sdk.Backend { return tcp.New() }}},
	{Kind: sdk.KindBackend, Name: "nccl", Plugin: sdk.Plugin{Backend: func() sdk.Backend { return nccl.New() }}},
	{Kind: sdk.KindPrecision, Name: "none", Plugin: sdk.Plugin{Precision: func() sdk.Precision { return amp.NewNone() }}},
	{Kind: sdk.KindDataset, Name: "synthetic", Plugin: sdk.Plugin{Dataset: func() sdk.Dataset { return synthetic.New() }}},
}

func TestMain(m *testing.M) {
	host.ServeBuiltin(builtins, os.Args[1:])
	os.Exit(m.Run())
}

const tables = `
[run]
name = "wired"
[dataset]
plugin = "synthetic"
[dataset.options]
shape = [12]
classes = 3
train_samples = 96
test_samples = 30
[train]
per_rank_batch = 8
[model]
layers = [{ type = "linear", out_features = 3 }]
[optimizer]
name = "sgd"
lr = 0.1
`

// options are those of a worker whose run goes into the test's directory.
func options(t *testing.T, set ...string) Options {
	t.Helper()
	fs := afero.NewMemMapFs()
	if err := afero.WriteFile(fs, "job.toml", []byte(tables), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c, err := config.Load(fs, "job.toml", config.LoadOptions{Set: append(set, fmt.Sprintf("run.dir=%q", dir))})
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Config: c, Request: train.Request{Started: time.Now()}, Builtins: builtins,
		Log: io.Discard,
	}
}

func summary(t *testing.T, o Options) event.Summary {
	t.Helper()
	s, err := event.ReadSummary(afero.NewOsFs(), filepath.Join(o.Config.Run.Dir, "wired", "latest", "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Every part of a worker has what it needs, and nothing is provided twice.
func TestWorkerIsWired(t *testing.T) {
	if err := fx.ValidateApp(modules(options(t)), fx.Invoke(func(*runner) {})); err != nil {
		t.Fatal(err)
	}
}

// The backend is one part among others: replaced by one whose ranks are
// goroutines, two workers train together without a process beside them.
func TestBackendCanBeReplaced(t *testing.T) {
	const size = 2
	key := secret.New()
	store, err := rank.ListenStore("127.0.0.1:0", rank.StoreOptions{RunID: "wired", Secret: key, WorldSize: size})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	t.Setenv(rank.EnvStore, store.Addr().String())
	o := options(t)
	meeting := membackend.NewWorld()
	ended := make(chan error, size)
	for r := range size {
		w := rank.World{Rank: r, Size: size, LocalRank: r, LocalSize: size, Nodes: 1, MasterAddr: "127.0.0.1", MasterPort: store.Addr().Port, RunID: "wired", Source: "test"}
		go func() { ended <- Worker(t.Context(), o, inProcess(w, key, meeting.New())) }()
	}
	for range size {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	s := summary(t, o)
	if s.Backend != "mem" || s.WorldSize != size || s.Steps != 6 || s.ParamsSHA256[0] != s.ParamsSHA256[1] {
		t.Errorf("summary %+v", s)
	}
	if acc := float64(*s.Eval.Accuracy); acc < 0.8 {
		t.Errorf("accuracy %v", acc)
	}
}

// inProcess replaces a worker's place in the job and all of its plugins.
func inProcess(w rank.World, key secret.Secret, b sdk.Backend) fx.Option {
	return fx.Replace(
		w, key,
		ready[host.Collectives](host.InProcessBackend(b)),
		ready[host.Batches](host.InProcessDataset(synthetic.New())),
		ready[host.Scaler](host.InProcessPrecision(amp.NewNone())),
	)
}

// One key chooses between TCP and NCCL; everything else stays.
func TestOneKeyChoosesTheBackend(t *testing.T) {
	single := fx.Replace(rank.Single())
	o := options(t, "backend.plugin=tcp")
	if err := Worker(t.Context(), o, single); err != nil {
		t.Fatal(err)
	}
	if s := summary(t, o); s.Backend != "tcp" || s.Status != "ok" {
		t.Errorf("summary %+v", s)
	}
	err := Worker(t.Context(), options(t, "backend.plugin=nccl"), single)
	if err == nil || !strings.Contains(err.Error(), "NCCL reduces memory of CUDA devices") {
		t.Errorf("nccl: %v", err)
	}
}

// Getting what starts ends with the caller's context, with its cause.
func TestStartingEndsWithTheContext(t *testing.T) {
	block := make(chan struct{})
	s := start(func() (int, error) { <-block; return 7, nil })
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if _, err := s.Get(ctx); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	close(block)
	if v, err := s.Get(t.Context()); v != 7 || err != nil {
		t.Errorf("got %v, %v", v, err)
	}
}
