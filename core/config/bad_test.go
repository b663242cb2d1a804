package config

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/golden"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/nn"
)

var update = flag.Bool("update", false, "rewrite the .want files; read the difference")

var errNoPlugin = errors.New("no such file: build the plugin or correct the path")

// tracker has the options of an observer.
var tracker = map[string]any{"url": "http://localhost:5000", "every": int64(1)}

// published stands for the plugins of the tests.
var published = map[string]map[string]any{
	"amp":       {"level": "O1", "dtype": "bf16", "init_scale": 65536.0, "growth_interval": int64(2000)},
	"mnist":     {"root": "data/mnist", "download": true, "mean": nil, "std": nil},
	"synthetic": {"shape": nil, "classes": int64(10), "train_samples": int64(1000), "test_samples": int64(100)},
	"none":      {}, "auto": {}, "tcp": {}, "tracker": tracker, "./tracker": tracker,
}

func checkPlugin(_ *Config, t PluginTable) (map[string]any, usererr.List, error) {
	plugin, given := t.Plugin, *t.Options
	options, ok := published[plugin]
	if !ok {
		return nil, nil, fmt.Errorf("plugin %s: %w", plugin, errNoPlugin)
	}
	var l usererr.List
	resolved := maps.Clone(options)
	for _, k := range slices.Sorted(maps.Keys(given)) {
		want, ok := options[k]
		switch {
		case !ok:
			l.Addf(k, "options: "+strings.Join(slices.Sorted(maps.Keys(options)), ", "), "plugin %s has no such option", plugin)
		case want != nil && fmt.Sprintf("%T", want) != fmt.Sprintf("%T", given[k]):
			l.Addf(k, "", "want a %T, got %v", want, given[k])
		}
		resolved[k] = given[k]
	}
	return resolved, l, nil
}

// loadText loads a text; lines that start with "#! " are --set arguments.
func loadText(name, text string) (*Config, error) {
	o := LoadOptions{Check: checkPlugin}
	for line := range strings.Lines(text) {
		if set, ok := strings.CutPrefix(line, "#! "); ok {
			o.Set = append(o.Set, strings.TrimSpace(set))
		}
	}
	fs := afero.NewMemMapFs()
	if err := afero.WriteFile(fs, name, []byte(text), 0o644); err != nil {
		return nil, err
	}
	return Load(fs, name, o)
}

// TestBad holds the message for every file in testdata/bad, letter by letter.
func TestBad(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.toml")
	if err != nil || len(files) < 40 {
		t.Fatalf("found %d bad files, want at least 40 (%v)", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".toml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = loadText(filepath.Base(file), string(text))
			var report *Error
			if !errors.As(err, &report) {
				t.Fatalf("loaded without a report: %v", err)
			}
			var got bytes.Buffer
			if err := Render(&got, report.Diagnostics, false); err != nil {
				t.Fatal(err)
			}
			checkPositions(t, string(text), report.Diagnostics)
			types, _ := nn.Types() // which grow with every operation
			text = bytes.ReplaceAll(got.Bytes(), []byte(strings.Join(types, ", ")), []byte("{types of layers}"))
			golden.Compare(t, strings.TrimSuffix(file, ".toml")+".want", text, *update)
		})
	}
}

// checkPositions holds what every diagnostic promises: its place exists, and
// the snippet is that line.
func checkPositions(t *testing.T, text string, list []Diagnostic) {
	t.Helper()
	lines := strings.Split(withoutMark(text), "\n")
	for _, d := range list {
		if d.Line < 1 || d.Col < 1 || d.EndCol < d.Col {
			t.Fatalf("%+v: no such range", d)
		}
		if d.File == "--set" || strings.HasPrefix(d.File, "PET_") {
			if d.Line != 1 {
				t.Fatalf("%+v: a flag has one line", d)
			}
			continue
		}
		if d.Line > len(lines) {
			t.Fatalf("%+v: the file has %d lines", d, len(lines))
		}
		line := strings.TrimSuffix(lines[d.Line-1], "\r")
		if n := len([]rune(line)); d.Col > n+1 || d.EndCol > n+1 {
			t.Fatalf("%+v: the line has %d characters", d, n)
		}
		if d.Snippet != "" && d.Snippet != line {
			t.Fatalf("snippet %q, line %q", d.Snippet, line)
		}
	}
}

// Settings that change nothing beside others are accepted and pointed out;
// the same with what they need, and the defaults, are not.
func TestIneffectiveSettingsAreWarnedOf(t *testing.T) {
	for _, c := range []struct {
		tables string
		want   []string
	}{
		{"", nil},
		{"[optimizer]\ndampening = 0.5", []string{"optimizer.dampening"}},
		{"[optimizer]\ndampening = 0.5\nmomentum = 0.9", nil},
		{"[lr_scheduler]\nwarmup_factor = 0.1", []string{"lr_scheduler.warmup_factor"}},
		{"[lr_scheduler]\nwarmup_factor = 0.1\nwarmup_steps = 3", nil},
		{"[ddp]\npowersgd_rank = 2\npowersgd_start_step = 5", []string{"ddp.powersgd_rank", "ddp.powersgd_start_step"}},
		{"[ddp]\npowersgd_rank = 2\npowersgd_start_step = 5\ncompress = \"powersgd\"", nil},
		{"[ddp]\nfind_unused_parameters = true", []string{"ddp.find_unused_parameters"}},
	} {
		cfg, err := loadText("job.toml", "[dataset]\nplugin = \"mnist\"\n[model]\nname = \"mlp\"\n[train]\nper_rank_batch = 8\n"+c.tables)
		if err != nil {
			t.Errorf("%s: %v", c.tables, err)
			continue
		}
		var got []string
		for _, w := range cfg.Warnings {
			got = append(got, w.Key)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: warnings of %v, want %v", c.tables, got, c.want)
		}
	}
	cfg, err := loadText("job.toml", "[dataset]\nplugin = \"mnist\"\n[model]\nname = \"mlp\"\n[train]\nper_rank_batch = 8\naccumulate_mean = false\n")
	if err != nil || len(cfg.Warnings) != 1 || cfg.Warnings[0].Key != "train.accumulate_mean" {
		t.Errorf("accumulate_mean of one batch: %v, %v", cfg, err)
	}
}
