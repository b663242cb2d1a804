package config

import (
	"slices"
	"testing"
)

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
