package sweep

import (
	"slices"
	"strings"
	"testing"
)

// Trials on GPUs have GPUs of their own, and their part of the cores.
func TestTrialsShareTheGPUs(t *testing.T) {
	four := []string{"GPU-a", "GPU-b", "GPU-c", "GPU-d"}
	for name, tc := range map[string]struct {
		head    string
		set     string // in the configuration
		gpus    []string
		at      int      // once
		envs    []string // of the first trials that run at once
		threads string
	}{
		"one each":             {"", "nproc_per_node = 1", four, 3, []string{"CUDA_VISIBLE_DEVICES=GPU-a", "CUDA_VISIBLE_DEVICES=GPU-b", "CUDA_VISIBLE_DEVICES=GPU-c"}, "2"},
		"two each":             {"", "nproc_per_node = 2", four, 2, []string{"CUDA_VISIBLE_DEVICES=GPU-a,GPU-b", "CUDA_VISIBLE_DEVICES=GPU-c,GPU-d"}, "2"},
		"all":                  {"", "nproc_per_node = \"auto\"", four, 1, []string{""}, ""},
		"auto, in parallel":    {"parallel = 2\n", "nproc_per_node = \"auto\"", four, 2, []string{"CUDA_VISIBLE_DEVICES=GPU-a,GPU-b", "CUDA_VISIBLE_DEVICES=GPU-c,GPU-d"}, "2"},
		"fewer than there are": {"parallel = 2\n", "nproc_per_node = 1", four, 2, []string{"CUDA_VISIBLE_DEVICES=GPU-a", "CUDA_VISIBLE_DEVICES=GPU-b"}, "4"},
		"shared":               {"parallel = 3\n", "nproc_per_node = 1\n[run]\nallow_shared_device = true", four[:2], 3, []string{"CUDA_VISIBLE_DEVICES=GPU-a", "CUDA_VISIBLE_DEVICES=GPU-b", "CUDA_VISIBLE_DEVICES=GPU-a"}, "2"},
		"the one GPU":          {"parallel = 2\n", "nproc_per_node = 1\n[run]\nallow_shared_device = true", four[:1], 2, []string{"", ""}, "4"},
		"MIG slices":           {"", "nproc_per_node = 1", []string{"MIG-a", "MIG-b"}, 2, []string{"CUDA_VISIBLE_DEVICES=MIG-a", "CUDA_VISIBLE_DEVICES=MIG-b"}, "4"},
		"auto, of MIG slices":  {"", "nproc_per_node = \"auto\"", []string{"MIG-a", "MIG-b"}, 2, []string{"CUDA_VISIBLE_DEVICES=MIG-a", "CUDA_VISIBLE_DEVICES=MIG-b"}, "4"},
		"on the CPU":           {"", "nproc_per_node = 4\n[run]\ndevice = \"cpu\"", four, 1, []string{""}, ""},
	} {
		p, most := together(t, tc.at)
		p.write("base.toml", strings.Replace(base, "nproc_per_node = 1\nthreads_per_rank = 1", tc.set, 1))
		s, err := p.open(tc.head+grid, func(o *Options) { o.Machine = Machine{Cores: 8, GPUs: tc.gpus} })
		if err == nil {
			err = p.run(s, nil)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		threads := slices.IndexFunc(p.args[0], func(a string) bool { return strings.HasPrefix(a, "launch.threads_per_rank=") })
		if *most != tc.at || !slices.Equal(p.envs[:tc.at], tc.envs) || (threads < 0) != (tc.threads == "") || threads >= 0 && !strings.HasSuffix(p.args[0][threads], "="+tc.threads) {
			t.Errorf("%s: %d trials at once, with %q, started with %q", name, *most, p.envs, p.args[0])
		}
	}
}

// What the GPUs are too few for is refused before anything starts, with the fix.
func TestTooFewGPUs(t *testing.T) {
	for _, tc := range []struct {
		text, set, at, says, help string
		gpus                      []string
	}{
		{grid, "nproc_per_node = 3", "lr.toml:1:10", "a trial of 3 ranks needs a GPU for each, and this machine has 2", "set launch.nproc_per_node to 2 or less", []string{"a", "b"}},
		{grid + "launch.nproc_per_node = [1, 3]", "threads_per_rank = 1", "lr.toml:4:29", "a trial of 3 ranks needs a GPU for each", "run.allow_shared_device", []string{"a", "b"}},
		{"parallel = 2\n" + grid, "nproc_per_node = 2", "lr.toml:1:12", "2 trials at once need 4 GPUs, and this machine has 3", "set it to 1 or less", []string{"a", "b", "c"}},
		{grid, "nproc_per_node = 2", "lr.toml:1:10", "CUDA shows the ranks of a trial only one MIG slice", "set launch.nproc_per_node to 1", []string{"MIG-a", "MIG-b"}},
		{grid, "nproc_per_node = 1\n[run]\ndevice = \"cuda\"", "lr.toml:1:10", "this machine has no GPU", `set it to "cpu"`, nil},
	} {
		p := newPlace(t, nil)
		p.write("base.toml", strings.Replace(base, "nproc_per_node = 1\nthreads_per_rank = 1", tc.set, 1))
		_, err := p.open(tc.text, func(o *Options) { o.Machine = Machine{Cores: 8, GPUs: tc.gpus} })
		if err == nil {
			t.Errorf("%s is accepted", tc.set)
			continue
		}
		for _, want := range []string{tc.at, tc.says, tc.help} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: lacks %q:\n%v", tc.set, want, err)
			}
		}
	}
}

// Trials use the GPUs that CUDA shows to the sweep, and all MIG slices of the list of which CUDA shows only the first.
func TestGPUsAreThoseThatAreVisible(t *testing.T) {
	for _, tc := range []struct {
		visible     string
		found, want []string
	}{
		{"", []string{"GPU-a", "GPU-b"}, []string{"GPU-a", "GPU-b"}},
		{"1,0", []string{"GPU-b", "GPU-a"}, []string{"GPU-b", "GPU-a"}},
		{"GPU-b", []string{"GPU-b"}, []string{"GPU-b"}},
		{"MIG-x, MIG-y,MIG-z", []string{"GPU-x"}, []string{"MIG-x", "MIG-y", "MIG-z"}},
		{"MIG-x,-1,MIG-z", []string{"GPU-x"}, []string{"MIG-x"}},
		{"MIG-gone", nil, nil},
	} {
		if got := GPUs(tc.found, tc.visible); !slices.Equal(got, tc.want) {
			t.Errorf("CUDA_VISIBLE_DEVICES=%s: %q, want %q", tc.visible, got, tc.want)
		}
	}
}
