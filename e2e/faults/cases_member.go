//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trainctl/trainctl/e2e/rig"
)

func strangers(t *trial) {
	for _, c := range []struct {
		name, env, says string
		second          bool // the right rank 1 is there as well
	}{
		{"a second rank 0", "RANK=0", "another process uses that port", false},
		{"a second rank 1", "RANK=1", "rank 1", true},
		{"a world of 4", "WORLD_SIZE=4", "4", false},
		{"another run", "TORCHELASTIC_RUN_ID=another", "the job's secret", false},
	} {
		p := newPlace(t)
		port := rig.FreePort(t)
		args := rig.Set(`backend.init_timeout="6s"`)
		procs := []*rig.Proc{p.StartRank(t, 0, 3, port, args...)}
		rig.Eventually(t, "rank 0's store", func() bool { return listens(port) })
		if c.second {
			procs = append(procs, p.StartRank(t, 1, 3, port, args...))
		}
		stranger := p.Command(append([]string{"worker", p.Config}, args...)...)
		stranger.Cmd.Env = append(stranger.Cmd.Env, "RANK=1", "LOCAL_RANK=1", "WORLD_SIZE=3", "LOCAL_WORLD_SIZE=3", "GROUP_RANK=0", "MASTER_ADDR=127.0.0.1",
			fmt.Sprint("MASTER_PORT=", port), "TORCHELASTIC_RUN_ID=by-hand", "TORCHELASTIC_RESTART_COUNT=0", c.env)
		procs = append(procs, stranger.Start(t))
		var text strings.Builder
		var codes []int
		for _, r := range procs {
			res := r.Wait(t).Within(t, 25*time.Second)
			codes = append(codes, res.Code)
			fmt.Fprintf(&text, "%s--\n", res.Stderr)
		}
		if slices.Contains(codes, 0) || !strings.Contains(text.String(), c.says) {
			t.Errorf("%s: exit codes %v, and nobody says %q:\n%s", c.name, codes, c.says, text.String())
		}
		t.saw("%s: exit codes %v", c.name, codes)
	}
}

// listens says whether a port of this host is taken.
func listens(port int) bool {
	return strings.Contains(strings.ToUpper(rig.ReadFile("/proc/net/tcp")+rig.ReadFile("/proc/net/tcp6")), fmt.Sprintf(":%04X 0", port))
}

func mismatch(t *trial) {
	p := newPlace(t)
	p.AddFaultyPlugin(t)
	for fault, says := range map[string]string{"other size": `rank 0 .*\[\d+\].*rank 1 .*\[\d+\]|rank 1 .*\[\d+\].*rank 0 .*\[\d+\]`, "other op": "broadcast"} {
		r := p.Train(t, p.FaultArgs("backend", fault)...)
		r.Expect(t, 5).Matches(t, says, `rank [01]`).OneFailureBlock(t).Within(t, 15*time.Second)
	}
	t.saw("exit 5, another size and another operation are named")
}
