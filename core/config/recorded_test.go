package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/sdk"
)

// What a run records is read back whole, and only what its file sets differs from the defaults.
func TestRecorded(t *testing.T) {
	fsys := afero.NewMemMapFs()
	const file = `
[run]
name = "a"
seed = 7
[train]
per_rank_batch = 8
[optimizer]
name = "adamw"
lr = 0.25
[dataset]
plugin = "synthetic"
[dataset.options]
n = 3
[[model.layers]]
type = "linear"
in_features = 784
out_features = 10
[eval]
metrics = ["confusion"]
`
	if err := afero.WriteFile(fsys, "a.toml", []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Load(fsys, "a.toml", LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	synthetic := sdk.Info{Kind: sdk.KindDataset, Name: "synthetic", Options: []sdk.Option{{Name: "n", Default: int64(3)}, {Name: "m", Default: "x"}}}
	got, err := ReadRecorded(string(c.Resolved())+"\n[future]\nkey = \"<b>\"\n", synthetic)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	changed := map[string]string{}
	for _, r := range got {
		values[r.Key] = r.Value
		if r.Changed() {
			changed[r.Key] = r.Value
		}
	}
	for _, s := range c.Settings() {
		if values[s.Key] != s.Value {
			t.Errorf("%s is %s, want %s", s.Key, values[s.Key], s.Value)
		}
	}
	want := map[string]string{
		"run.name": `"a"`, "run.seed": "7", "optimizer.name": `"adamw"`, "optimizer.lr": "0.25", "dataset.plugin": `"synthetic"`, "eval.metrics": `["confusion"]`, "train.per_rank_batch": "8", "future.key": `"<b>"`,
	}
	for key, value := range want {
		if changed[key] != value {
			t.Errorf("%s: %q", key, changed[key])
		}
	}
	for key := range changed {
		if _, ok := want[key]; !ok && key[:6] != "model." {
			t.Errorf("%s = %s is not the default", key, changed[key])
		}
	}
	if d := cmp.Diff("future.key", got[len(got)-1].Key); d != "" {
		t.Error(d)
	}
	if _, err := ReadRecorded("[run"); err == nil {
		t.Error("half a table was read")
	}
}
