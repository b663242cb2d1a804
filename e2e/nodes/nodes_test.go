//go:build linux

package nodes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/e2e/rig"
)

// rendezvous is an endpoint on loopback without a listener.
func rendezvous(t *testing.T) string { return fmt.Sprint("127.0.0.1:", rig.FreePort(t)) }

// compared is a place where a run of one node has ended, whose bits others are compared with, and an
// endpoint for them.
func compared(t *testing.T) (*rig.Place, string) {
	p := rig.NewPlace(t)
	p.Train(t).Expect(t, 0)
	return p, rendezvous(t)
}

// Two launchers of one rank each train the same bits as one of two.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	p, endpoint := compared(t)
	other := p.Node(1, endpoint, "--nproc-per-node", "1").Start(t)
	p.Node(0, endpoint, "--nproc-per-node", "1").Start(t).Wait(t).Expect(t, 0).Prints(t, "ok after 8 steps")
	other.Wait(t).Expect(t, 0).Prints(t, "ok: the job succeeded", filepath.Join(p.Dir, "runs", "job", "2"))
	rig.SameParams(t, p.Summary(t, 1), p.Summary(t, 2))
}

// Two hosts on one file system write into one directory, that of rank 0's
// number, and latest is that. Both say how the job ended.
func TestNodesShareARunDirectory(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	endpoint := rendezvous(t)
	shared := []string{"--nproc-per-node", "1", "--run-dir", filepath.Join(p.Dir, "runs")}
	other := p.Node(1, endpoint, shared...).Start(t)
	p.Node(0, endpoint, shared...).Start(t).Wait(t).Expect(t, 0)
	other.Wait(t).Expect(t, 0).Prints(t, "ok: the job succeeded")
	runs, err := filepath.Glob(filepath.Join(p.Dir, "runs", "job", "[0-9]*"))
	rig.Must(t, err)
	if len(runs) != 1 {
		t.Errorf("run directories %v", runs)
	}
	for _, f := range []string{"summary.json", "config.toml", "logs/rank-0.log", "logs/rank-1.log", "checkpoints/latest"} {
		if _, err := os.Stat(filepath.Join(p.Dir, "runs", "job", "latest", f)); err != nil {
			t.Error(err)
		}
	}
}

// If two machines disagree about the training, the difference is reported.
func TestNodesThatDisagree(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	endpoint := rendezvous(t)
	other := p.Node(1, endpoint, append(rig.Set("optimizer.lr=0.5"), "--nproc-per-node", "1")...).Start(t)
	p.Node(0, endpoint, "--nproc-per-node", "1").Start(t).Wait(t).Expect(t, 2).Prints(t, "optimizer.lr = 0.1, node 1 has optimizer.lr = 0.5")
	other.Wait(t).Expect(t, 2).Prints(t, "optimizer.lr = 0.1, node 1 has optimizer.lr = 0.5")
}

// Missing data is reported once on every machine, with the machine that lacks it.
func TestNodesWithoutData(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	endpoint := rendezvous(t)
	args := append(rig.Set("dataset.plugin=imagefolder", `dataset.options={root="nowhere"}`, `model={name="mlp"}`), "--nproc-per-node", "2")
	other := p.Node(1, endpoint, args...).Start(t)
	for _, r := range []rig.Result{p.Node(0, endpoint, args...).Start(t).Wait(t), other.Wait(t)} {
		r.Expect(t, 2)
		r.Matches(t, `(?m)^error: rank \d on \S+: dataset plugin "imagefolder": .*nowhere`)
		_, told, _ := strings.Cut(r.Stderr, "error: ")
		if n := strings.Count(told, "\n"); n > 4 || strings.Count(r.Stderr, "nowhere") > 3 || strings.Contains(r.Stderr, "FAILED") {
			t.Errorf("told in %d lines:\n%s", n, r.Stderr)
		}
	}
}

// When the cable between two machines breaks in the middle of training, both
// launchers end with a block that names ranks on the other side, soon after
// the collective's deadline.
func TestCableBetweenNodesBreaks(t *testing.T) {
	t.Parallel()
	for i, r := range cutBetweenNodes(t, `backend.timeout="2s"`) {
		r.Matches(t, `ranks? (`+[]string{`2, 3|2|3`, `0, 1|0|1`}[i]+`) did not arrive`)
	}
}

// With the default timeouts both sides end as soon as the network is known to
// be silent, although data is under way on every connection, and say which link
// it is. The deadline of a collective, five minutes, plays no part.
func TestCutLinkWithDefaultTimeouts(t *testing.T) {
	t.Parallel()
	for i, r := range cutBetweenNodes(t, `backend.timeout="5m"`, `dataset.timeout="5m"`) {
		here, there := i+1, 2-i
		r.Matches(t, fmt.Sprintf(`\.%d:\d+, seen from \S+\.%d:\d+, acknowledged nothing for 20s: the network between them is down`, there, here))
		r.Matches(t, fmt.Sprintf(`(rank [%s] .*|launcher of node %d is gone.*)acknowledged nothing`, []string{"23", "01"}[i], 1-i))
	}
}

// cutBetweenNodes trains on two machines of two ranks each, takes the cable
// away once training is under way, and gives how both launchers ended.
func cutBetweenNodes(t *testing.T, keys ...string) (ends []rig.Result) {
	t.Helper()
	hosts, err := bench.NewHosts(2)
	if errors.Is(err, bench.ErrNoHosts) {
		t.Skipf("needs network namespaces: %v", err)
	}
	rig.Must(t, err)
	t.Cleanup(func() { rig.Must(t, hosts.Close()) })
	p := rig.NewPlace(t)
	var nodes []*rig.Proc
	for i := range hosts.Len() {
		r := p.Node(i, hosts.Addr(0)+":29511", rig.Endless(keys...)...)
		inside := hosts.Command(t.Context(), i, r.Cmd.Path, r.Cmd.Args[1:]...)
		r.Cmd.Path, r.Cmd.Args = inside.Path, inside.Args
		nodes = append(nodes, r.Start(t))
	}
	p.WaitForSteps(t, nodes[0], 1, 3)
	if out, err := exec.Command("ip", "-n", hosts.Name(0), "link", "set", hosts.Device(), "down").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i, n := range nodes {
		r := n.Wait(t).Expect(t, 5).Prints(t, "FAILED")
		t.Logf("node %d after %v:\n%s", i, r.Took, r.Stderr)
		ends = append(ends, r)
	}
	return ends
}
