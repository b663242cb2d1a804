package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/golden"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/train/data"
)

func load(t *testing.T, text string, o LoadOptions) *Config {
	t.Helper()
	mem := afero.NewMemMapFs()
	if err := afero.WriteFile(mem, "cfg.toml", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Load(mem, "cfg.toml", o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const minimal = `
[dataset]
plugin = "mnist"
[train]
epochs = 2
per_rank_batch = 64
[model]
name = "convnet"
`

// TestGood holds the printed form of every file in testdata/good, and that a
// resolved file loads to the same configuration and prints the same again.
func TestGood(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatal("no good files", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".toml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, err := loadText(filepath.Base(file), string(text))
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, strings.TrimSuffix(file, ".toml")+".want", c.Show(), *update)
			sameAgain(t, c)
		})
	}
}

// failer is a *testing.T, *testing.F or *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func sameAgain(t failer, c *Config) {
	t.Helper()
	for _, text := range [][]byte{c.Resolved(), c.Show()} {
		again, err := loadText("config.toml", string(text))
		if err != nil {
			t.Fatalf("the resolved file does not load: %v\n%s", err, text)
		}
		if diff := cmp.Diff(c.File, again.File, cmp.Comparer(equal[launch.Count]), cmp.Comparer(equal[launch.Duration]), cmp.Comparer(equalShares)); diff != "" {
			t.Fatalf("the resolved file loads to something else (-first +again):\n%s", diff)
		}
		if diff := cmp.Diff(string(c.Resolved()), string(again.Resolved())); diff != "" {
			t.Fatalf("not stable:\n%s", diff)
		}
	}
}

// Hosts may start their ranks and keep their files as they like; what decides
// on the training is common.
func TestCommon(t *testing.T) {
	one := load(t, minimal, LoadOptions{})
	here := func(key, value string) []Override { return []Override{{Key: key, Value: value, Flag: "--flag"}} }
	for _, o := range [][]Override{here("launch.threads_per_rank", "3"), here("run.dir", "/scratch"), here("dataset.options.root", "/data"),
		here("backend.options.interface", "eth7")} {
		if c := load(t, minimal, LoadOptions{Flags: o}); !slices.Equal(c.Common(), one.Common()) {
			t.Errorf("%s is compared", o[0].Key)
		}
	}
	for _, o := range [][]Override{here("run.seed", "9"), here("optimizer.lr", "0.7"), here("backend.options.segment_bytes", "8192"), here("dataset.options.mean", "[1]"), here("launch.shares", "[3, 1]")} {
		if c := load(t, minimal, LoadOptions{Flags: o}); slices.Equal(c.Common(), one.Common()) {
			t.Errorf("%s is not compared", o[0].Key)
		}
	}
}

func TestPrecedence(t *testing.T) {
	text := minimal + "[launch]\nmax_restarts = 1\nnnodes = \"1\"\n"
	env := func(name string) (string, bool) {
		v, ok := map[string]string{"PET_MAX_RESTARTS": "2", "PET_NNODES": "1"}[name]
		return v, ok
	}
	flag := []Override{{Key: "launch.max_restarts", Value: "3", Flag: "--max-restarts"}}
	for _, tc := range []struct {
		name    string
		o       LoadOptions
		want    int
		origin  string
		nodesBy string
	}{
		{"file", LoadOptions{}, 1, "cfg.toml:10", "cfg.toml:11"},
		{"env", LoadOptions{Env: env}, 2, "env PET_MAX_RESTARTS", "env PET_NNODES"},
		{"flag", LoadOptions{Env: env, Flags: flag}, 3, "flag --max-restarts", "env PET_NNODES"},
		{"set", LoadOptions{Env: env, Flags: flag, Set: []string{"launch.max_restarts=4"}}, 4, "flag --set", "env PET_NNODES"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := load(t, text, tc.o)
			if c.Launch.MaxRestarts != tc.want {
				t.Errorf("max_restarts = %d, want %d", c.Launch.MaxRestarts, tc.want)
			}
			if got := c.Origin("launch.max_restarts").String(); got != tc.origin {
				t.Errorf("origin %q, want %q", got, tc.origin)
			}
			if got := c.Origin("launch.nnodes").String(); got != tc.nodesBy {
				t.Errorf("origin of nnodes %q, want %q", got, tc.nodesBy)
			}
			if got := c.Origin("train.log_freq").String(); got != "default" {
				t.Errorf("origin of log_freq %q", got)
			}
		})
	}
}

// In a pod, the environment gives the launcher its node rank; flags override it.
func TestPods(t *testing.T) {
	for _, tc := range []struct {
		env              map[string]string
		nodes, rank      int
		endpoint, origin string
	}{
		{map[string]string{"PET_NNODES": "4", "PET_NODE_RANK": "2", "PET_MASTER_ADDR": "t", "PET_MASTER_PORT": "29500"}, 4, 2, "t:29500", "env PET_MASTER_ADDR"},
		{map[string]string{"PET_NNODES": "2", "PET_RDZV_ENDPOINT": "[fd77::1]:29400"}, 2, 0, "[fd77::1]:29400", "env PET_RDZV_ENDPOINT"},
		{map[string]string{"PET_MASTER_ADDR": "t", "PET_NNODES": "2", "PET_RDZV_ENDPOINT": "u:1"}, 2, 0, "u:1", "env PET_RDZV_ENDPOINT"},
		{map[string]string{"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "m", "MASTER_PORT": "23456", "KUBERNETES_SERVICE_HOST": "k"}, 2, 1, "m:23456", "env RANK"},
		{map[string]string{"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "KUBERNETES_SERVICE_HOST": "k"}, 1, 0, "", "default"},
	} {
		c := load(t, minimal, LoadOptions{Env: func(name string) (string, bool) { v, ok := tc.env[name]; return v, ok }})
		if l := c.Launch; l.Nnodes != launch.N(tc.nodes) || l.NodeRank != tc.rank || l.RdzvEndpoint != tc.endpoint {
			t.Errorf("%v: node %d of %v at %q", tc.env, l.NodeRank, l.Nnodes, l.RdzvEndpoint)
		}
		if got := c.Origin("launch.rdzv_endpoint").String(); got != tc.origin {
			t.Errorf("%v: the address is from %q, want %q", tc.env, got, tc.origin)
		}
	}
	mem := afero.NewMemMapFs()
	if err := afero.WriteFile(mem, "cfg.toml", []byte(minimal), 0o644); err != nil {
		t.Fatal(err)
	}
	_, problems := Load(mem, "cfg.toml", LoadOptions{Env: func(name string) (string, bool) {
		v, ok := map[string]string{"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "m", "KUBERNETES_SERVICE_HOST": "k"}[name]
		return v, ok
	}})
	if problems == nil || !strings.Contains(problems.Error(), "RANK is 2 and WORLD_SIZE is 2") {
		t.Errorf("a pod too many: %v", problems)
	}
}

func TestSet(t *testing.T) {
	text := minimal + "[dataset.options]\nroot = \"a\"\n"
	c := load(t, text, LoadOptions{Set: []string{
		"dataset.plugin=synthetic", "optimizer.lr=1e-3", "optimizer.name=adam", "optimizer.betas=[0.8, 0.9]",
		"optimizer.betas[1]=0.95", `run.name="quoted"`, "backend.plugin=./bin/my-backend", "backend.timeout=30s",
		`dataset.options."odd key".deep=[1, 2]`, "model.name=", `model.layers=[{type="flatten"}, {type="linear", out_features=3}]`,
		"model.layers[1].out_features=10", "sampler.shuffle=false",
	}[:9]})
	if c.Dataset.Plugin != "synthetic" || c.Optimizer.LR != 1e-3 || c.Optimizer.Betas != [2]float64{0.8, 0.95} ||
		c.Run.Name != "quoted" || c.Backend.Plugin != "./bin/my-backend" || c.Backend.Timeout.Seconds() != 30 {
		t.Errorf("%+v", c.File)
	}
	want := map[string]any{"root": "a", "odd key": map[string]any{"deep": []any{int64(1), int64(2)}}}
	if diff := cmp.Diff(want, c.Dataset.Options); diff != "" {
		t.Error(diff)
	}
	if got := c.Origin("dataset.options.root").String(); got != "cfg.toml:10" {
		t.Errorf("origin %q", got)
	}

	c = load(t, minimal, LoadOptions{Set: []string{
		`model.name=""`, `model.layers=[{type="flatten"}, {type="linear", out_features=3}]`,
		"model.layers[1].out_features=10", "model.layers[1].bias=false",
	}})
	if len(c.Model.Layers) != 2 || c.Model.Layers[1].Args["out_features"] != 10 || c.Model.Layers[1].Args["bias"] != false {
		t.Errorf("%+v", c.Model.Layers)
	}
}

func TestDivisionOfSteps(t *testing.T) {
	global := strings.Replace(minimal, "per_rank_batch = 64", "global_batch = 96", 1)
	for _, c := range []struct {
		file  string
		set   []string
		world int
		want  data.Division
	}{
		{minimal, []string{"train.accumulate_steps=2"}, 3, data.Division{Step: 64 * 3 * 2, Micro: 64, Accumulate: 2}},
		{global, nil, 4, data.Division{Step: 96, Micro: 24, Accumulate: 1}},
		{global, nil, 5, data.Division{Step: 96, Micro: 20, Accumulate: 1}},
		{global, []string{"train.accumulate_steps=3"}, 4, data.Division{Step: 96, Micro: 8, Accumulate: 3}},
		{global, []string{"train.per_rank_batch=16"}, 1, data.Division{Step: 96, Micro: 16, Accumulate: 6}},
		{global, []string{"train.per_rank_batch=16"}, 5, data.Division{Step: 96, Micro: 10, Accumulate: 2}},
		{global, []string{"train.per_rank_batch=16"}, 8, data.Division{Step: 96, Micro: 12, Accumulate: 1}},
	} {
		if d, err := load(t, c.file, LoadOptions{Set: c.set}).Divide(c.world); d != c.want || err != nil {
			t.Errorf("%v on %d ranks: %+v, %v, want %+v", c.set, c.world, d, err, c.want)
		}
	}
	_, err := load(t, global, LoadOptions{}).Divide(97)
	list := Diagnostics(err)
	if len(list) != 1 || list[0].Key != "train.global_batch" || list[0].Line != 6 || !strings.Contains(list[0].Help, "97 or more") {
		t.Errorf("%+v", list)
	}
}

func TestStandardInputAndMissingFile(t *testing.T) {
	c, err := Load(afero.NewMemMapFs(), "-", LoadOptions{Stdin: strings.NewReader(minimal)})
	if err != nil || c.Path != "<stdin>" || c.Run.Name != "run" {
		t.Errorf("%+v, %v", c, err)
	}
	_, err = Load(afero.NewMemMapFs(), "none.toml", LoadOptions{})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "none.toml") {
		t.Errorf("%v", err)
	}
}

// A plugin that cannot be asked keeps its own error reachable, which decides
// the exit code.
func TestPluginFailureIsReachable(t *testing.T) {
	_, err := loadText("cfg.toml", strings.Replace(minimal, `"mnist"`, `"./gone"`, 1))
	if !errors.Is(err, errNoPlugin) {
		t.Errorf("%v", err)
	}
}

func TestDefaultsFollowTheOptimizer(t *testing.T) {
	for name, want := range map[string]float64{"sgd": 0, "adam": 0, "adamw": 0.01} {
		if c := load(t, minimal, LoadOptions{Set: []string{"optimizer.name=" + name}}); c.Optimizer.WeightDecay != want {
			t.Errorf("%s: weight decay %v, want %v", name, c.Optimizer.WeightDecay, want)
		}
	}
}

func equal[T comparable](a, b T) bool { return a == b }

func equalShares(a, b launch.Shares) bool { return a.String() == b.String() }
