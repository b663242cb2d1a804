//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"testing"

	"github.com/trainctl/trainctl/core/bench"
)

// Two launchers of one rank each train the same bits as one of two.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.train(t).expect(t, 0)
	endpoint := fmt.Sprint("127.0.0.1:", freePort(t))
	other := p.node(1, endpoint, "--nproc-per-node", "1").start(t)
	p.node(0, endpoint, "--nproc-per-node", "1").start(t).wait(t).expect(t, 0).says(t, "ok after 8 steps")
	other.wait(t).expect(t, 0)
	sameParams(t, p.summary(t, 1), p.summary(t, 2))
}

// Two machines that disagree about the training are told in what.
func TestNodesThatDisagree(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	endpoint := fmt.Sprint("127.0.0.1:", freePort(t))
	other := p.node(1, endpoint, append(set("optimizer.lr=0.5"), "--nproc-per-node", "1")...).start(t)
	p.node(0, endpoint, "--nproc-per-node", "1").start(t).wait(t).expect(t, 2).says(t, "optimizer.lr = 0.1, node 1 has optimizer.lr = 0.5")
	other.wait(t).expect(t, 2).says(t, "optimizer.lr = 0.1, node 1 has optimizer.lr = 0.5")
}

// When the cable between two machines breaks in the middle of training, both
// launchers end with a block that names ranks on the other side, soon after
// the collective's deadline.
func TestCableBetweenNodesBreaks(t *testing.T) {
	t.Parallel()
	hosts, err := bench.NewHosts(2)
	if errors.Is(err, bench.ErrNoHosts) {
		t.Skipf("needs network namespaces: %v", err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, hosts.Close()) })
	p := newPlace(t)
	var nodes []*proc
	for i := range hosts.Len() {
		r := p.node(i, hosts.Addr(0)+":29511", endless(`backend.timeout="2s"`)...)
		inside := hosts.Command(t.Context(), i, r.cmd.Path, r.cmd.Args[1:]...)
		r.cmd.Path, r.cmd.Args = inside.Path, inside.Args
		nodes = append(nodes, r.start(t))
	}
	p.trained(t, nodes[0], 1, 3)
	if out, err := exec.Command("ip", "-n", hosts.Name(0), "link", "set", hosts.Device(), "down").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i, beyond := range []string{`ranks? (2, 3|2|3) did not arrive`, `ranks? (0, 1|0|1) did not arrive`} {
		r := nodes[i].wait(t).expect(t, 5).says(t, "FAILED")
		if !regexp.MustCompile(beyond).MatchString(r.stderr) {
			t.Errorf("node %d does not say %q:\n%s", i, beyond, r.stderr)
		}
	}
}
