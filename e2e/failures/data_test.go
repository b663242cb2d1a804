package failures

import (
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

// A damaged image ends the job at once with the configuration's exit code and
// the file's name, whichever rank reads it and whatever restarts are left.
func TestDamagedImageEndsTheJob(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	for _, name := range []string{"a/1", "a/2", "a/3", "a/4", "b/1", "b/2", "b/3", "b/4"} {
		path := filepath.Join(p.Dir, "images", "train", name+".png")
		rig.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		f, err := os.Create(path)
		rig.Must(t, err)
		rig.Must(t, png.Encode(f, image.NewGray(image.Rect(0, 0, 32, 32))))
		rig.Must(t, f.Close())
	}
	damaged := filepath.Join(p.Dir, "images", "train", "b", "3.png")
	rig.Must(t, os.Truncate(damaged, 60))
	p.Configure(t, `
[launch]
nproc_per_node = 2
max_restarts = 3
[dataset]
plugin = "imagefolder"
[dataset.options]
root = "images"
size = 32
[train]
per_rank_batch = 2
[model]
layers = [{ name = "flat", type = "flatten" }, { name = "fc", type = "linear", in_features = 3072, out_features = 2 }]
`)
	endsByData(t, p, "images/train/b/3.png", "unexpected EOF", `dataset.options.corrupt = "skip"`)
}

// Users' plugins report it in the same way, with shared memory and without.
func TestDamagedDataOfAPlugin(t *testing.T) {
	t.Parallel()
	for rank := range 2 {
		p := rig.NewPlace(t)
		if rank == 1 {
			p.Env = []string{"TRAINCTL_DATA_PLANE=inline"}
		}
		plugin, err := rig.Build(p.Dir, "e2e/testdata/ending")
		rig.Must(t, err)
		endsByData(t, p, "shard-7.bin: is damaged", rig.Set("dataset.plugin="+plugin, "dataset.options.end_rank="+strconv.Itoa(rank),
			"dataset.options.end_at=3", "dataset.options.corrupt=shard-7.bin", "launch.max_restarts=3")...)
	}
}

// endsByData runs the job, which has to end by what is wrong with its data.
func endsByData(t *testing.T, p *rig.Place, says string, more ...string) {
	t.Helper()
	var args []string
	if len(more) > 0 && more[0] == "--set" {
		args, more = more, nil
	}
	r := p.Train(t, args...).Expect(t, 2).Prints(t, append(more, says, "job FAILED", "Restarting does not help")...).OneFailureBlock(t)
	if strings.Contains(r.Stderr, "attempt 2") || p.Summary(t, 1).Restarts != 0 {
		t.Errorf("it was started again:\n%s", r.Stderr)
	}
}
