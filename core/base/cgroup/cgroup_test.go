package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machine makes a root with these files.
func machine(t *testing.T, files map[string]string) root {
	t.Helper()
	dir := t.TempDir()
	for path, text := range files {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root(dir)
}

func TestCoresFollowQuotas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		want  int
	}{
		"none":            {nil, 8},
		"v2":              {map[string]string{"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "250000 100000\n"}, 3},
		"v2 unlimited":    {map[string]string{"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "max 100000\n"}, 8},
		"less than one":   {map[string]string{"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "50000 100000\n"}, 1},
		"more than usual": {map[string]string{"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "6400000 100000\n"}, 8},
		"the outer is less": {map[string]string{"proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/cpu.max": "200000 100000\n", "sys/fs/cgroup/a/b/cpu.max": "400000 100000\n"}, 2},
		"v1": {map[string]string{"proc/self/cgroup": "3:cpu,cpuacct:/x\n2:memory:/y\n",
			"sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us": "400000\n", "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us": "100000\n"}, 4},
		"v1 unlimited": {map[string]string{"proc/self/cgroup": "3:cpu:/\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 8},
		"v1 in a container that sees its own group as the root": {map[string]string{"proc/self/cgroup": "3:cpu:/docker/1c36\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "50000\n"}, 3},
		"both versions": {map[string]string{"proc/self/cgroup": "1:cpu:/\n0::/u\n", "sys/fs/cgroup/unified/u/cpu.max": "max 1\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 2},
		"nonsense": {map[string]string{"proc/self/cgroup": "?\n0::/x\n", "sys/fs/cgroup/x/cpu.max": "lots\n"}, 8},
	} {
		if got := machine(t, c.files).cores(8); got != c.want {
			t.Errorf("%s: %d cores, want %d", name, got, c.want)
		}
	}
}

func TestOutOfMemoryKills(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		limit string
	}{
		"v2": {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.events": "oom 5\noom_kill 3\n",
			"sys/fs/cgroup/a/memory.max": "2147483648\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, "2.0 GiB"},
		"v1": {map[string]string{"proc/self/cgroup": "4:memory:/m\n", "sys/fs/cgroup/memory/m/memory.oom_control": "under_oom 0\noom_kill 3\n",
			"sys/fs/cgroup/memory/m/memory.limit_in_bytes": "1073741824\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, "1.0 GiB"},
		"no group": {map[string]string{"proc/self/cgroup": "0::/\n", "proc/vmstat": "nr_free 1\noom_kill 3\n"}, "because memory ran out"},
	} {
		m := machine(t, c.files)
		if n := m.oomKills(); n != 3 {
			t.Errorf("%s: %d kills", name, n)
		}
		if e := m.evidence(2, 3<<29); !strings.Contains(e, "killed 1 process") || !strings.Contains(e, c.limit) || !strings.Contains(e, "up to 1.5 GiB") {
			t.Errorf("%s: %q", name, e)
		}
		if e := m.evidence(3, 3<<29); e != "" {
			t.Errorf("%s: %q without a kill", name, e)
		}
	}
	if n := machine(t, nil).oomKills(); n != -1 {
		t.Error(n)
	}
}
