//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trainctl/trainctl/e2e/rig"
)

// cgroups are where a memory limit can be set, for version 1 and 2.
var cgroups = []struct{ root, limit string }{
	{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"},
}

func hasMemoryCgroup() string {
	for _, c := range cgroups {
		if b, err := os.ReadFile(filepath.Join(c.root, "cgroup.controllers")); err == nil && strings.Contains(string(b), "memory") || isThere(filepath.Join(c.root, c.limit)) {
			return ""
		}
	}
	return "this machine has no memory controller of cgroups"
}

// limited prepares trainctl in a cgroup of that many bytes.
func (p *place) limited(t rig.TB, bytes int, args ...string) *rig.Proc {
	t.Helper()
	r := p.Command(args...)
	dir := ""
	for _, c := range cgroups {
		at := filepath.Join(c.root, cgroupName())
		if os.Mkdir(at, 0o755) != nil {
			continue
		}
		if isThere(filepath.Join(at, c.limit)) {
			dir = at
			rig.Must(t, os.WriteFile(filepath.Join(at, c.limit), fmt.Append(nil, bytes), 0o644))
			break
		}
		rig.Must(t, os.Remove(at))
	}
	if dir == "" {
		t.Fatal("no cgroup could be made")
	}
	_ = os.WriteFile(filepath.Join(dir, "memory.swappiness"), []byte("0"), 0o644)
	t.Cleanup(func() { removeCgroup(t, dir) })
	r.Cmd.Args = append([]string{"sh", "-c", `echo $$ > "$0"/cgroup.procs && exec "$@"`, dir, r.Cmd.Path}, r.Cmd.Args[1:]...)
	r.Cmd.Path = "/bin/sh"
	return r
}

func removeCgroup(t rig.TB, dir string) {
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = os.Remove(dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
	}
	t.Errorf("removing the cgroup: %v", err)
}

func leakingPlugin(t *trial) {
	p := newPlace(t)
	p.AddFaultyPlugin(t)
	r := p.limited(t, 400<<20, append([]string{"run", p.Config}, p.FaultArgs("dataset", "leak")...)...).Start(t).Wait(t)
	t.ended(r, 5).BlockPrints(t, "rank      : 1", `dataset plugin "./faulty"`, "memory", "lower the batch", "plugin of rank 1 used it").Matches(t, "(?i)out of memory|memory ran out")
	t.saw("the block names the plugin and the memory's limit")
}

func hungryRank(t *trial) {
	p := newPlace(t)
	args := append([]string{"run", p.Config}, rig.Set("dataset.options.shape=[6000]", `model.layers=[{type="linear", out_features=6000}, {type="linear", out_features=4}]`,
		"optimizer.momentum=0.9", `checkpoint.every="never"`)...)
	r := p.limited(t, 600<<20, args...).Start(t).Wait(t)
	t.ended(r, 5).BlockPrints(t, "SIGKILL", "limit of its control group: 0.6 GiB", "ran out of memory", "lower the batch").Matches(t, `had used up to 0\.[1-6] GiB`)
	t.saw("the block says out of memory and what to lower")
}
