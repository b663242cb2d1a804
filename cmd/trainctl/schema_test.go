package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/internal/builtins"
)

// asJSON turns what the program prints into what the validator reads.
func asJSON(t *testing.T, v any) any {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func validator(t *testing.T) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	if err := c.AddResource("memory:///trainctl.json", asJSON(t, config.Schema(builtins.Infos()...))); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("memory:///trainctl.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func valid(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	var file map[string]any
	if _, err := toml.Decode(text, &file); err != nil {
		t.Fatal(err)
	}
	return s.Validate(asJSON(t, file))
}

// TestSchemaAcceptsShippedConfigurations validates every configuration of the
// repository, as written and with all keys.
func TestSchemaAcceptsShippedConfigurations(t *testing.T) {
	s := validator(t)
	files, _ := filepath.Glob("../../configs/*.toml")
	good, _ := filepath.Glob("../../core/config/testdata/good/*.toml")
	if len(files) == 0 || len(good) == 0 {
		t.Fatal("no configurations")
	}
	resolved, _ := filepath.Glob("../../core/config/testdata/good/*.want")
	for _, file := range append(append(files, good...), resolved...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := valid(t, s, string(text)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

const smallest = "dataset.plugin = %q\ntrain.per_rank_batch = 64\nmodel.name = \"convnet\"\n"

func TestSchemaAccepts(t *testing.T) {
	s := validator(t)
	for _, line := range []string{
		`ddp.bucket_cap_mb = "auto"`, `ddp.bucket_cap_mb = 12.5`, `launch.nproc_per_node = "4"`, `launch.nproc_per_node = 4`, `launch.grace = "auto"`,
		`launch.grace = "1m30s"`, `backend.options.algorithm = "ring"`, `precision = {plugin = "amp", options = {level = "O2"}}`,
		`precision = {plugin = "./mine", options = {tea = 3}}`, `precision.plugin = "apex"`, `backend = {plugin = "gloo", options = {tea = 3}}`, `observers = [{plugin = "wandb", options = {tea = 1}}]`, `backend = {plugin = "./mine", options = {tea = 3}}`, `dataset.options.root = "my data"`,
		`model.freeze = ["0"]`, `checkpoint.every = "500 steps"`, `sampler.seed = 7`, `optimizer.betas = [0, 0.9]`,
		`train.max_norm = 0`, `train.max_skips = 0`, `lr_scheduler.warmup_factor = 1`, `ddp.first_bucket_mb = 0`, `train.eval_every = 0`,
	} {
		if err := valid(t, s, fmt.Sprintf(smallest, "mnist")+line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, plugin := range []string{"./my-data", "~/plugins/my-data", "C:\\my-data", "mine", "torch", "mnits"} {
		if err := valid(t, s, strings.Replace(fmt.Sprintf(smallest, "NAME"), `"NAME"`, "'"+plugin+"'", 1)+"dataset.options.tea = 1"); err != nil {
			t.Errorf("%s: %v", plugin, err)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	s := validator(t)
	for _, line := range []string{
		`optimizer.name = "sdg"`, `lr_scheduler.name = "cos"`, `lr_scheduler.unit = "steps"`, `ddp.compress = "int8"`, `ddp.uneven = "pad"`, `run.device = "gpu"`,
		`run.dtype = "bf16"`, `sampler.pad = "zero"`, `checkpoint.keep_best = "accuracy"`, `checkpoint.every = "1 day"`, `checkpoint.prefix = "model."`,
		`model.loss = "l3"`, `model.stem = "tiny"`, `backend.plugin = ""`, `precision.plugin = ""`, `backend.plugin = 3`, `observers = [{plugin = ""}]`, `observers = [{plugin = "mlflow", options = {tea = 1}}]`, `backend.sha256 = "abc"`,
		`backend.options.algorithm = "star"`, `backend.options.tea = 1`, `precision.options.level = "O1"`, `precision = {plugin = "amp", options = {level = "O9"}}`,
		`dataset.options.fallback = "none"`, `dataset.options.root = 3`, `dataset.options.pad = 3`, `launch.nproc_per_node = "many"`, `launch.nproc_per_node = 0`, `launch.grace = "soon"`,
		`ddp.bucket_cap_mb = "big"`, `train.epochs = "3"`, `train.epocs = 3`,
		`train.epochs = -1`, `train.global_batch = -1`, `train.accumulate_steps = 0`, `optimizer.lr = -0.1`, `ddp.powersgd_rank = 0`, `sampler.prefetch = 0`, `launch.max_restarts = -1`,
		`lr_scheduler.warmup_factor = 1.5`, `checkpoint.keep = -1`, `backend.restarts = -1`, `metrics.tensorboard = 1`, `trian.epochs = 3`,
		`model.layers = [{type = "dense"}]`, `model.layers = [{type = "gelu", approximate = "sin"}]`, `model.layers = [{type = "linear", units = 3}]`, `model.layers = [{out_features = 3}]`,
	} {
		if valid(t, s, fmt.Sprintf(smallest, "mnist")+line) == nil {
			t.Errorf("%s is valid", line)
		}
	}
	if valid(t, s, fmt.Sprintf(smallest, "")) == nil {
		t.Error("an empty name of a data set is valid")
	}
}

// TestSchemaDescribesEveryKey: no key of a table, a layer or a built-in plugin's
// options is without a description, and none has only names for one.
func TestSchemaDescribesEveryKey(t *testing.T) {
	root := asJSON(t, config.Schema(builtins.Infos()...)).(map[string]any)
	described(t, "", root)
	for name, d := range root["definitions"].(map[string]any) {
		described(t, name, d.(map[string]any))
	}
}

func described(t *testing.T, at string, node map[string]any) {
	t.Helper()
	props, _ := node["properties"].(map[string]any)
	for key, p := range props {
		p := p.(map[string]any)
		text, _ := p["description"].(string)
		sub, isTable := p["properties"]
		for line := range strings.Lines(text) {
			if len(strings.Fields(line)) < 2 || strings.Trim(line, "sgdlramw, ") == "" {
				t.Errorf("%s.%s: %q is not a sentence", at, key, line)
			}
		}
		if text == "" && !(isTable && key == "options" && sub != nil) {
			t.Errorf("%s.%s has no description", at, key)
		}
		described(t, at+"."+key, p)
	}
	cases, _ := node["anyOf"].([]any)
	for i, c := range cases {
		described(t, fmt.Sprintf("%s[%d]", at, i), c.(map[string]any))
	}
}
