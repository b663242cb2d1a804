package trainctltest_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainctl/trainctl"
	"github.com/trainctl/trainctl/core/base/race"
	"github.com/trainctl/trainctl/trainctltest"
)

// few are settings that make two steps of every configuration short. Layers, optimizers, schedules and
// everything else stay as they are.
var few = []string{"train.max_steps=2", "train.eval_every=0", "run.device=cpu", "checkpoint.every=never", `checkpoint.keep_best=""`}

// pictures are random images of a shape in place of a data set that may not be here.
func pictures(shape string, more ...string) []string {
	return append([]string{"dataset.plugin=synthetic", "dataset.options={ shape = " + shape + ", train_samples = 64, test_samples = 8 }"}, more...)
}

// shortened are the settings of each configuration in configs/.
var shortened = map[string][]string{
	"mnist-ddp":         pictures("[1, 28, 28]", "train.per_rank_batch=2"),
	"cifar-resnet18":    pictures("[3, 32, 32]", "train.global_batch=4"),
	"resnet18-finetune": pictures("[3, 32, 32]", "train.global_batch=4"),
	"vit-cifar":         pictures("[3, 32, 32]", "train.global_batch=4"),
	"imagenet-resnet50": pictures("[3, 32, 32]", "train.global_batch=4"),
	"gpt-shakespeare":   {"train.global_batch=4", "train.eval_batch=4"},
	"gpt2-finetune":     {"train.per_rank_batch=1", "model.n_layer=2", "model.n_embd=48", "model.vocab_size=300"},
}

// For all configurations that come with the program, ranks that are goroutines give the bits of ranks
// that are processes.
func TestThreadsGiveTheBitsOfProcesses(t *testing.T) {
	files, err := filepath.Glob("../configs/*.toml")
	if err != nil || len(files) != len(shortened) {
		t.Fatalf("%d configurations, and settings for %d: add the others to shortened (%v)", len(files), len(shortened), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".toml")
		t.Run(name, func(t *testing.T) {
			cfg := trainctl.File(file).With(few...).With(shortened[name]...)
			processes := []trainctl.Option{trainctl.Set("launch.ranks=processes"), trainctl.RankArgs("-test.run=^TestThreadsGiveTheBitsOfProcesses$/^" + name + "$")}
			if race.Enabled {
				processes = nil // they share no memory of Go that a race could be in
			}
			want := trainctltest.Run(t, cfg, 2, trainctl.TCP, processes...)
			got := trainctltest.Run(t, cfg, 2, trainctl.TCP)
			if got.Summary.ParamsSHA256[0] != want.Summary.ParamsSHA256[0] || len(got.Losses) != 2 {
				t.Errorf("weights %.12s of threads, %.12s of processes; losses %v and %v", got.Summary.ParamsSHA256[0], want.Summary.ParamsSHA256[0], got.Losses, want.Losses)
			}
		})
	}
}
