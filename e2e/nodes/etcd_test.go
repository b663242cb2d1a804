//go:build linux

package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/job/etcd/etcdtest"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/e2e/rig"
)

// etcdFleet is a fleet whose launchers meet in etcd, which has a network namespace of its own.
type etcdFleet struct {
	*fleet
	etcd *etcdtest.Server
	seen map[int]bool // steps at which nodes were gone
}

// etcdCommand starts a node in docs/clusters.md.
const etcdCommand = `trainctl run job.toml --nnodes 1:3 --rdzv-backend etcd --rdzv-endpoint etcd0:2379`

// newEtcdFleet is n nodes, whose command is etcdCommand with another configuration and endpoint;
// none is started.
func newEtcdFleet(t *testing.T, n int, tables string, args ...string) *etcdFleet {
	t.Helper()
	if _, err := exec.LookPath("etcd"); err != nil {
		t.Skip("etcd is not installed (Debian's package etcd-server)")
	}
	f := newFleet(t, n+1, tables, args...)
	r := &etcdFleet{fleet: f, seen: map[int]bool{}}
	r.etcd = etcdtest.Start(t, etcdtest.Options{Host: f.hosts.Addr(n), Command: func(program string, args ...string) *exec.Cmd {
		return f.hosts.Command(context.Background(), n, program, args...)
	}})
	f.endpoint = r.etcd.Addr
	f.args = append(strings.Fields(etcdCommand)[3:7:7], f.args...)
	return r
}

// get reads a key of the job; "" where it is not set.
func (r *etcdFleet) get(t *testing.T, flags ...string) string {
	t.Helper()
	cmd := r.hosts.Command(t.Context(), len(r.nodes)-1, "etcdctl", append([]string{"--endpoints", r.etcd.Addr, "get"}, flags...)...)
	cmd.Env = append(cmd.Environ(), "ETCDCTL_API=3")
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) || strings.Contains(string(out), "No such file") {
		t.Skip("etcdctl is not installed (Debian's package etcd-client)")
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// join starts a node and waits until it is registered under its number.
func (r *etcdFleet) join(t *testing.T, i int) {
	t.Helper()
	r.start(t, i)
	rig.Eventually(t, fmt.Sprintf("node %d to be registered", i), func() bool {
		return strings.Contains(r.get(t, "--prefix", "--keys-only", "/trainctl/"), fmt.Sprint("/nodes/", i))
	})
}

// host is the node that hosts the ranks' store.
func (r *etcdFleet) host(t *testing.T) int {
	t.Helper()
	key := strings.Fields(r.get(t, "--prefix", "--keys-only", "/trainctl/"))
	at := slices.IndexFunc(key, func(k string) bool { return strings.HasSuffix(k, "/host") })
	if at < 0 {
		t.Fatalf("no host in %v", key)
	}
	var h struct{ Node int }
	rig.Must(t, json.NewDecoder(strings.NewReader(r.get(t, "--print-value-only", key[at]))).Decode(&h)) // a signature follows
	return h.Node
}

// gone waits until the others go on without a node.
func (r *etcdFleet) gone(t *testing.T, i int, began time.Time) {
	t.Helper()
	gone := r.changes(t, fmt.Sprintf("node %d to be gone", i), func(e *event.Elastic) bool { return slices.Equal(e.Left, []int{i}) && !r.seen[e.Step] })
	r.seen[gone.Step] = true
	r.reaches(t, gone.Step+1)
	t.Logf("the next step is done %v after node %d was killed: %+v", time.Since(began).Round(time.Millisecond), i, *gone)
}

// etcdOutage is how long etcd is unreachable: longer than leases. TRAINCTL_ETCD_OUTAGE changes it.
func etcdOutage(t *testing.T) time.Duration {
	text := os.Getenv("TRAINCTL_ETCD_OUTAGE")
	if text == "" {
		return 5 * time.Second
	}
	d, err := time.ParseDuration(text)
	rig.Must(t, err)
	return d
}

// With etcd every node may die, also the one that hosts the ranks' store, and while etcd restarts;
// nothing happens while etcd is unreachable. At the end nothing is left in etcd.
func TestEveryNodeMayDieWithEtcd(t *testing.T) {
	t.Parallel()
	f := newEtcdFleet(t, 3, fleetTables, rig.Set(`launch.lost_after="2s"`, `backend.timeout="5m"`)...)
	for i := range 3 {
		f.join(t, i)
	}
	f.reaches(t, 20)
	if h := f.host(t); h != 0 {
		t.Fatalf("node %d hosts, not the first one", h)
	}
	began := time.Now()
	f.kill(t, 0)
	f.gone(t, 0, began)
	next := f.host(t)
	f.join(t, 0)
	f.changes(t, "node 0 to be back", func(e *event.Elastic) bool { return slices.Equal(e.Joined, []int{0}) })

	f.etcd.Kill(t)
	f.kill(t, next)
	began = time.Now()
	f.etcd.Start(t)
	f.gone(t, next, began)

	f.etcd.Signal(t, syscall.SIGSTOP)
	step, over := f.step(), time.Now().Add(etcdOutage(t))
	rig.Eventually(t, "the end of the outage", func() bool { return time.Now().After(over) })
	f.reaches(t, max(step+20, f.step()+1))
	f.etcd.Signal(t, syscall.SIGCONT)
	f.join(t, next)
	f.changes(t, "the node to be back", func(e *event.Elastic) bool { return slices.Equal(e.Joined, []int{next}) })

	rig.Signal(t, f.nodes[f.host(t)].Cmd.Process.Pid, syscall.SIGTERM)
	for _, n := range f.nodes[:3] {
		n.Wait(t).Expect(t, 75)
	}
	if left := f.get(t, "--prefix", "--keys-only", "/trainctl/"); left != "" {
		t.Errorf("left in etcd: %s", left)
	}
	f.compare(t, fleetTables, 1e-3)
	survivor := f.nodes[3-next].Stderr.String()
	for _, line := range []string{" has not answered since ", " answers again, after "} {
		if !strings.Contains(survivor, "etcd at "+f.etcd.Addr+line) {
			t.Errorf("node %d does not report %q:\n%s", 3-next, line, survivor)
		}
	}
	if next == 0 || strings.Contains(survivor, "in its place") || strings.Contains(survivor, "lost its place") {
		t.Errorf("the rank of node %d was started again:\n%s", 3-next, survivor)
	}
}

// With etcd the node that hosts the store may die as any other, be frozen, or lose its cable, and etcd may be killed or silent
// meanwhile. One node at a time is not there, so that each gets its own number again.
func TestRandomEventsHitNodesWithEtcd(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	const nodes, apart = 4, 600
	tables := strings.NewReplacer("eval_every = 0\n", "", "epochs = 1000000\n", "").Replace(fleetTables)
	s, events := newStorm(t, 10)
	f := newEtcdFleet(t, nodes, tables, stormArgs(apart*(events+2))...)
	s.fleet = f.fleet
	for i := range nodes {
		f.join(t, i)
	}
	silent := false
	s.rages(t, events, apart, func(t *testing.T) {
		kind := s.random.IntN(7)
		node := s.random.IntN(nodes)
		for i := range nodes {
			if !s.up(i) {
				node = i
			}
		}
		switch {
		case silent:
			t.Logf("step %d: etcd answers again", s.step())
			f.etcd.Signal(t, syscall.SIGCONT)
			silent = false
		case kind == 5:
			t.Logf("step %d: etcd is killed, and started again", s.step())
			f.etcd.Kill(t)
			f.etcd.Start(t)
		case kind == 6 && s.whole(t): // a change of the ranks would wait for etcd
			t.Logf("step %d: etcd is silent", s.step())
			f.etcd.Signal(t, syscall.SIGSTOP)
			silent = true
		default:
			s.hits(t, node, kind%5)
		}
	})
	if silent {
		f.etcd.Signal(t, syscall.SIGCONT)
	}
	for _, n := range s.nodes {
		if n != nil {
			endsAfterTheJob(t, n)
		}
	}
	s.checked(t, tables, 1e-3)
}

// whole reports whether the ranks of all nodes are in the group.
func (s *storm) whole(t *testing.T) bool {
	all := rig.EventsOf[*event.Elastic](t, s.RunDir(1))
	return len(all) > 0 && all[len(all)-1].Ranks == 4
}
