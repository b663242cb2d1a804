//go:build linux

package nodes

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/e2e/rig"
)

// fleet is an elastic job of nodes in network namespaces, one rank each, which share a file
// system. Node 0 hosts the store and stays.
type fleet struct {
	*rig.Place
	hosts    *bench.Hosts
	args     []string
	endpoint string      // where launchers meet
	nodes    []*rig.Proc // nil: not started, or killed
}

// progressLine is a line of progress.
var progressLine = regexp.MustCompile(`(?m)^(epoch|eval) .*\n`)

const fleetPort = ":29511"

// newFleet is n nodes; none is started.
func newFleet(t *testing.T, n int, tables string, args ...string) *fleet {
	t.Helper()
	hosts, err := bench.NewHosts(n)
	if errors.Is(err, bench.ErrNoHosts) {
		t.Skipf("needs network namespaces: %v", err)
	}
	rig.Must(t, err)
	t.Cleanup(func() { rig.Must(t, hosts.Close()) })
	f := &fleet{Place: rig.PlaceWith(t, tables), hosts: hosts, args: args, endpoint: hosts.Addr(0) + fleetPort, nodes: make([]*rig.Proc, n)}
	t.Cleanup(func() {
		for i, node := range f.nodes {
			if node != nil && t.Failed() {
				t.Logf("node %d, without its progress:\n%s", i, progressLine.ReplaceAllString(node.Stderr.String(), ""))
			}
		}
	})
	return f
}

// start starts a node.
func (f *fleet) start(t *testing.T, i int) {
	t.Helper()
	args := append([]string{"run", f.Config, "--node-rank", strconv.Itoa(i), "--rdzv-endpoint", f.endpoint, "--nproc-per-node", "1", "--run-dir", filepath.Join(f.Dir, "runs")}, f.args...)
	r := f.Command(args...)
	r.Cmd.Env = append(r.Cmd.Env, "TRAINCTL_JOB_SECRET="+rig.JobSecret)
	inside := f.hosts.Command(t.Context(), i, r.Cmd.Path, r.Cmd.Args[1:]...)
	r.Cmd.Path, r.Cmd.Args = inside.Path, inside.Args
	f.nodes[i] = r.Start(t)
}

// starts starts the first n nodes and waits for some steps.
func (f *fleet) starts(t *testing.T, n, steps int) {
	t.Helper()
	for i := range n {
		f.start(t, i)
	}
	f.reaches(t, steps)
}

// signal signals all processes of a node.
func (f *fleet) signal(t *testing.T, i int, sig syscall.Signal) {
	t.Helper()
	rig.Signal(t, f.nodes[i].Cmd.Process.Pid, sig)
	for _, q := range f.Processes() {
		if slices.Contains(q.Env, fmt.Sprint("GROUP_RANK=", i)) {
			_ = syscall.Kill(q.PID, sig) // it may have ended meanwhile
		}
	}
}

// kill kills a node as a loss of power does.
func (f *fleet) kill(t *testing.T, i int) {
	t.Helper()
	f.signal(t, i, syscall.SIGKILL)
	f.nodes[i].Wait(t)
	f.nodes[i] = nil
}

// cable takes the cable of a node away, or connects it again.
func (f *fleet) cable(t *testing.T, i int, state string) {
	t.Helper()
	if out, err := exec.Command("ip", "-n", f.hosts.Name(i), "link", "set", f.hosts.Device(), state).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// step is the last step of the run; -1 before the first one.
func (f *fleet) step() int {
	b, _ := os.ReadFile(filepath.Join(f.RunDir(1), "events.jsonl"))
	at := strings.LastIndex(string(b), `"event":"step"`)
	if at < 0 {
		return -1
	}
	_, rest, _ := strings.Cut(string(b[at:]), `"step":`)
	n, _ := strconv.Atoi(rest[:max(0, strings.IndexAny(rest, ",}"))])
	return n
}

// reaches waits until the run has taken a step.
func (f *fleet) reaches(t *testing.T, step int) {
	t.Helper()
	rig.Eventually(t, fmt.Sprint("step ", step), func() bool { return f.step() >= step })
}

// changes waits until the ranks have changed in a way.
func (f *fleet) changes(t *testing.T, what string, is func(e *event.Elastic) bool) (found *event.Elastic) {
	t.Helper()
	rig.Eventually(t, what, func() bool {
		all := rig.EventsOf[*event.Elastic](t, f.RunDir(1))
		i := slices.IndexFunc(all, is)
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	return found
}

// fleetTables are a job of a small network with a fixed global batch.
var fleetTables = strings.NewReplacer("keep = 0", "keep = 2", "lr = 0.05", "lr = 0.0005", `"1 step"`, `"1000 steps"`).Replace(rig.ElasticTables) +
	"[train]\nglobal_batch = 16\nlog_freq = 1000000\neval_every = 0\nepochs = 1000000\n"

// compare asserts that the steps of a run are those of an undisturbed one on one rank.
func (f *fleet) compare(t *testing.T, tables string, within float64) rig.Run {
	t.Helper()
	got := rig.Run{Dir: f.RunDir(1)}
	for _, s := range rig.EventsOf[rig.StepEvent](t, f.RunDir(1)) {
		got.Steps = append(got.Steps, *s)
	}
	slices.SortStableFunc(got.Steps, func(a, b event.StepDone) int { return a.Step - b.Step }) // a rank 0 that was frozen writes its last ones late, one that was cut off perhaps one that the others repeat
	last := got.Steps[len(got.Steps)-1].Step
	p := rig.PlaceWith(t, tables)
	args := rig.Set("launch.nproc_per_node=1", fmt.Sprint("train.max_steps=", last), "train.epochs=1000000")
	proc := p.Start(t, append([]string{"run", p.Config, "--progress", "none"}, args...)...)
	rig.Must(t, proc.Cmd.Wait()) // with many events it takes longer than a test usually may
	whole := rig.ReadRun(t, p.RunDir(1))
	expected := rig.Run{Dir: whole.Dir, Summary: whole.Summary}
	for _, s := range got.Steps { // those of the last 10 ms before rank 0 was killed may be missing
		expected.Steps = append(expected.Steps, whole.Steps[s.Step-1])
	}
	rig.SameSteps(t, got, expected, within)
	return whole
}

// A range of nodes starts when the least number has come, goes on without one that dies, admits
// those that come, and waits with fewer than the least.
func TestNodesComeAndGo(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, fleetTables, rig.Set(`launch.nnodes="2:3"`, `launch.lost_after="2s"`, `backend.timeout="5m"`)...)
	f.starts(t, 2, 20)
	f.start(t, 2)
	f.changes(t, "node 2 to join", func(e *event.Elastic) bool { return slices.Equal(e.Joined, []int{2}) })
	killed := time.Now()
	f.kill(t, 1)
	gone := f.changes(t, "node 1 to be gone", func(e *event.Elastic) bool { return slices.Equal(e.Left, []int{1}) })
	t.Logf("%v after a node was killed: %+v", time.Since(killed).Round(time.Millisecond), *gone)
	f.start(t, 1)
	f.changes(t, "node 1 to be back", func(e *event.Elastic) bool { return slices.Equal(e.Joined, []int{1}) })
	f.kill(t, 1)
	f.kill(t, 2)
	f.changes(t, "node 0 to be alone", func(e *event.Elastic) bool { return e.Ranks == 1 })
	rig.Eventually(t, "node 0 to wait", func() bool { return strings.Contains(f.nodes[0].Stderr.String(), "the job needs more ranks than 1") })
	f.start(t, 2)
	f.changes(t, "node 2 to be back", func(e *event.Elastic) bool { return slices.Equal(e.Joined, []int{2}) && e.Before == 1 })
	f.reaches(t, f.step()+10)
	rig.Signal(t, f.nodes[0].Cmd.Process.Pid, syscall.SIGTERM)
	for _, i := range []int{0, 2} {
		f.nodes[i].Wait(t).Expect(t, 75)
	}
	f.compare(t, fleetTables, 1e-3)
	if n := strings.Count(rig.ReadFile(filepath.Join(f.RunDir(1), "events.jsonl")), `"event":"rank_started"`); n != 1 {
		t.Errorf("rank 0 was started %d times", n)
	}
}

// A node whose cable is cut, or that is frozen, is out soon after lost_after, also if it has rank 0;
// the others go on, and it joins them again.
func TestNodesThatAreSilentComeBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, fleetTables, rig.Set(`launch.nnodes="1:3"`, `launch.lost_after="2s"`, `launch.max_restarts=1`, `backend.timeout="5m"`)...)
	f.starts(t, 3, 20)
	rig.Signal(t, f.Worker(t, 0).PID, syscall.SIGKILL) // so that node 1 has rank 0, and then node 2
	f.changes(t, "another rank of node 0 to join", func(e *event.Elastic) bool { return slices.Equal(e.Joined, []int{0}) })
	for _, silent := range []struct {
		node        int
		begin, over func()
	}{
		{1, func() { f.signal(t, 1, syscall.SIGSTOP) }, func() { f.signal(t, 1, syscall.SIGCONT) }},
		{2, func() { f.cable(t, 2, "down") }, func() { f.cable(t, 2, "up") }},
	} {
		began := time.Now()
		silent.begin()
		gone := f.changes(t, "the silent node to be out", func(e *event.Elastic) bool { return slices.Equal(e.Left, []int{silent.node}) })
		t.Logf("node %d is out after %v: %+v", silent.node, time.Since(began).Round(time.Millisecond), *gone)
		silent.over()
		f.changes(t, "the silent node to be back", func(e *event.Elastic) bool { return slices.Equal(e.Joined, []int{silent.node}) })
	}
	rig.Signal(t, f.nodes[0].Cmd.Process.Pid, syscall.SIGTERM)
	for _, n := range f.nodes {
		n.Wait(t).Expect(t, 75)
	}
	f.compare(t, fleetTables, 1e-3)
}

// A node may become silent at any moment of forming a group: before it listens, while others connect to it or wait for its
// connection, in a reduction, or while a joining rank gets the state. The others go on without it soon after lost_after.
func TestNodesBecomeSilentWhileAGroupIsFormed(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	f := newFleet(t, 3, fleetTables, rig.Set(`launch.nnodes="1:3"`, `launch.lost_after="2s"`, `launch.max_restarts=1000`, `backend.timeout="5m"`, `backend.init_timeout="5m"`,
		"backend.plugin=./halting", `backend.env=["GROUP_RANK"]`, `backend.options.connect_timeout="5m"`)...)
	f.AddProgram(t, "e2e/nodes/testdata/halting")
	folder := filepath.Join(f.Dir, "halts")
	rig.Must(t, os.Mkdir(folder, 0o755))
	f.args = append(f.args, rig.Set(fmt.Sprintf("backend.options.folder=%q", folder))...)
	f.starts(t, 3, 20)
	for _, silent := range []struct {
		node  int
		stage string
	}{{2, "listen"}, {1, "connect"}, {2, "connect"}, {2, "connected"}, {1, "all_reduce"}, {2, "broadcast"}} {
		at := f.step()
		halt := filepath.Join(folder, strconv.Itoa(silent.node))
		for _, file := range []string{halt, halt + "-" + silent.stage} {
			rig.Must(t, os.WriteFile(file, nil, 0o644))
		}
		if silent.stage != "all_reduce" { // a group is formed for those that are left, and for the one that joins them
			rig.Signal(t, f.Worker(t, 0).PID, syscall.SIGKILL)
		}
		rig.Eventually(t, silent.stage, func() bool { _, err := os.Stat(halt + "-" + silent.stage); return err != nil })
		began := time.Now()
		f.cable(t, silent.node, "down")
		rig.Must(t, os.Remove(halt))
		gone := f.changes(t, "the silent node to be out", func(e *event.Elastic) bool { return e.Step > at && slices.Contains(e.Left, silent.node) })
		f.reaches(t, gone.Step)
		t.Logf("%s: node %d is out, and the next step done, after %v: %+v", silent.stage, silent.node, time.Since(began).Round(time.Millisecond), *gone)
		f.cable(t, silent.node, "up")
		f.changes(t, "all nodes to be back", func(e *event.Elastic) bool { return e.Step > at && e.Ranks == 3 && len(e.Joined) > 0 })
		f.reaches(t, f.step()+20)
	}
	rig.Signal(t, f.nodes[0].Cmd.Process.Pid, syscall.SIGTERM)
	for _, n := range f.nodes {
		n.Wait(t).Expect(t, 75)
	}
	f.compare(t, fleetTables, 1e-3)
}

// Two nodes that reach node 0, but not each other, cannot be in one group: one of them leaves, and the others go on.
func TestNodesThatDoNotReachEachOther(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits until TCP takes the connection for broken, 20 s")
	}
	f := newFleet(t, 3, fleetTables, rig.Set(`launch.nnodes="1:3"`, `launch.lost_after="2s"`, `backend.options.connect_timeout="5s"`)...)
	f.starts(t, 3, 20)
	const nowhere = "02:00:00:00:00:99"
	if out, err := exec.Command("ip", "-n", f.hosts.Name(1), "neigh", "replace", f.hosts.Addr(2), "lladdr", nowhere, "dev", f.hosts.Device(), "nud", "permanent").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	gone := f.changes(t, "node 2 to be out", func(e *event.Elastic) bool { return slices.Equal(e.Left, []int{2}) })
	f.reaches(t, gone.Step+20)
	f.nodes[2].Wait(t).Expect(t, 5).Prints(t, "cannot reach this one, and the ranks go on without it; fix: check the network between their hosts")
	rig.Signal(t, f.nodes[0].Cmd.Process.Pid, syscall.SIGTERM)
	for _, n := range f.nodes[:2] {
		n.Wait(t).Expect(t, 75)
	}
	f.compare(t, fleetTables, 1e-3)
}

// When all ranks that have the model die, none is started again and again: the job fails.
func TestJobWithoutTheModelFails(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, fleetTables, rig.Set(`launch.nnodes="1:2"`, `launch.lost_after="2s"`, `launch.max_restarts=1000`)...)
	f.starts(t, 2, 20)
	ranks := []int{f.Worker(t, 0).PID, f.Worker(t, 1).PID}
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range ranks {
			rig.Signal(t, pid, sig)
		}
	}
	for _, n := range f.nodes {
		n.Wait(t).Expect(t, 5).Prints(t, "all ranks that had the model are gone")
	}
}

// When node 0 is started again, nodes that had lost it join its next run, and write into that one if rank 0 dies.
func TestNodesJoinTheNextRun(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, fleetTables, append(rig.Set(`launch.nnodes="2:2"`, `launch.lost_after="2s"`, `launch.max_restarts=1`), "--resume", "auto")...)
	f.starts(t, 2, 20)
	f.kill(t, 0)
	rig.Eventually(t, "node 1 to look for node 0", func() bool { return strings.Contains(f.nodes[1].Stderr.String(), "lost node 0") })
	first := len(rig.EventsOf[rig.StepEvent](t, f.RunDir(1)))
	f.start(t, 0)
	f.WaitForSteps(t, f.nodes[0], 2, 20)
	rig.Signal(t, f.Worker(t, 0).PID, syscall.SIGKILL)
	rig.Eventually(t, "another rank of node 0 to join", func() bool {
		return slices.ContainsFunc(rig.EventsOf[*event.Elastic](t, f.RunDir(2)), func(e *event.Elastic) bool { return slices.Equal(e.Joined, []int{0}) })
	})
	rig.Signal(t, f.nodes[0].Cmd.Process.Pid, syscall.SIGTERM)
	for _, n := range f.nodes {
		n.Wait(t).Expect(t, 75)
	}
	steps := rig.EventsOf[rig.StepEvent](t, f.RunDir(2))
	if n := len(rig.EventsOf[rig.StepEvent](t, f.RunDir(1))); n != first {
		t.Errorf("the first run has %d steps more", n-first)
	}
	if last := steps[len(steps)-1].Step; rig.NewestStep(f.Checkpoints(2)) != last {
		t.Errorf("the newest checkpoint of the second run is of step %d of %d", rig.NewestStep(f.Checkpoints(2)), last)
	}
}

// Without ranks and restarts node 0 does not stay, and says what helps.
func TestLastRankOfNode0(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, fleetTables, rig.Set(`launch.nnodes="2:2"`, `launch.lost_after="2s"`)...)
	f.starts(t, 2, 20)
	rig.Signal(t, f.Worker(t, 0).PID, syscall.SIGKILL)
	f.nodes[0].Wait(t).Expect(t, 5).Prints(t, "the job ends with the last rank of node 0", "launch.max_restarts")
	f.nodes[1].Wait(t).Expect(t, 5)
}

// With fewer nodes than the least for longer than wait_for_nodes the rest saves, and can be resumed.
func TestTooFewNodesSaveAndEnd(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, fleetTables, rig.Set(`launch.nnodes="2:2"`, `launch.lost_after="2s"`, `launch.wait_for_nodes="1s"`)...)
	f.starts(t, 2, 20)
	f.kill(t, 1)
	f.nodes[0].Wait(t).Expect(t, 75).Prints(t, "the job needs more ranks than 1")
	if step := rig.NewestStep(f.Checkpoints(1)); step < 20 || step != f.step() {
		t.Errorf("the newest checkpoint is of step %d of %d", step, f.step())
	}
}

// Ranks that wait for more nodes save and end at once when they are asked to.
func TestStopWhileTooFewNodes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, fleetTables, rig.Set(`launch.nnodes="2:2"`, `launch.lost_after="2s"`, `launch.wait_for_nodes="1h"`, `launch.grace="1m"`)...)
	f.starts(t, 2, 20)
	f.kill(t, 1)
	rig.Eventually(t, "node 0 to wait", func() bool { return strings.Contains(f.nodes[0].Stderr.String(), "the job needs more ranks than 1") })
	rig.Signal(t, f.nodes[0].Cmd.Process.Pid, syscall.SIGTERM)
	f.nodes[0].Wait(t).Expect(t, 75)
	if step := rig.NewestStep(f.Checkpoints(1)); step < 20 || step != f.step() {
		t.Errorf("the newest checkpoint is of step %d of %d", step, f.step())
	}
}

// convNetTables train the ConvNet on generated digits.
const convNetTables = `[model]
name = "convnet"
[sampler]
pad = "none"
[optimizer]
name = "sgd"
momentum = 0.9
lr = 0.01
[dataset]
plugin = "mnist"
[dataset.options]
root = "nowhere"
download = false
fallback = "generated"
[checkpoint]
every = "500 steps"
keep = 2
[metrics]
tensorboard = false
[lr_scheduler]
name = "cosine"
unit = "step"
[train]
global_batch = 64
log_freq = 1000000
`

// Random events hit four nodes: a node or a rank is killed, a cable is cut and restored, a node is
// added, a node is frozen. The job ends by itself, with the samples and losses of an undisturbed
// one, and the ranks that nothing happened to are never started again.
// TRAINCTL_ELASTIC_EVENTS and TRAINCTL_ELASTIC_SEED change the number of events and their choice.
func TestRandomEventsHitNodes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	tables := strings.NewReplacer("eval_every = 0\n", "", "epochs = 1000000\n", "").Replace(fleetTables)
	stormed(t, tables, 10, 600, 1e-3)
}

// So it is with the ConvNet, whose dropout depends on ranks: it has the samples of an undisturbed run,
// and its accuracy.
func TestRandomEventsHitTheConvNet(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	sum, whole := stormed(t, convNetTables, 5, 60, math.Inf(1))
	if a, b := float64(*sum.Eval.Accuracy), float64(*whole.Eval.Accuracy); math.Abs(a-b) > 0.001 {
		t.Errorf("accuracy %v, undisturbed %v", a, b)
	}
}

// stormed is a run whose nodes random events hit, some steps apart, compared with an undisturbed one.
func stormed(t *testing.T, tables string, events, apart int, within float64) (sum, undisturbed event.Summary) {
	t.Helper()
	s, events := newStorm(t, events)
	s.fleet = newFleet(t, 4, tables, stormArgs(apart*(events+2))...)
	for i := range s.nodes {
		s.start(t, i)
	}
	s.rages(t, events, apart, s.event)
	s.nodes[0].Wait(t).Expect(t, 0)
	for _, n := range s.nodes[1:] {
		if n != nil { // one that had not joined again when the job ended may not know how
			endsAfterTheJob(t, n)
		}
	}
	return s.checked(t, tables, within)
}

// stormArgs let a run of so many steps survive a storm.
func stormArgs(steps int) []string {
	return rig.Set(`launch.nnodes="1:4"`, `launch.lost_after="2s"`, `launch.max_restarts=1000`, `backend.timeout="5m"`, "train.epochs=1000000", fmt.Sprint("train.max_steps=", steps))
}

// rages lets events happen, some steps apart, and ends what lasts.
func (s *storm) rages(t *testing.T, events, apart int, event func(*testing.T)) {
	t.Helper()
	for e := range events {
		s.reaches(t, apart*(e+1))
		event(t)
	}
	for _, over := range s.over {
		over()
	}
}

// checked asserts that the run was that of an undisturbed one.
func (s *storm) checked(t *testing.T, tables string, within float64) (sum, undisturbed event.Summary) {
	t.Helper()
	whole := s.compare(t, tables, within)
	sum = s.Summary(t, 1)
	if all := len(rig.EventsOf[*event.Elastic](t, s.RunDir(1))); len(sum.Comm.Elastic) != all { // also if the last rank 0 had joined late
		t.Errorf("the summary has %d changes of the ranks, the events have %d", len(sum.Comm.Elastic), all)
	}
	s.neverStartedAgain(t)
	for _, c := range sum.Comm.Elastic {
		t.Logf("step %d: %d ranks, -%v +%v, stood still for %.0f ms", c.Step, c.Ranks, c.Left, c.Joined, float64(c.TookMS))
	}
	return sum, whole.Summary
}

// endsAfterTheJob waits for a node of a job that has ended. One that has lost node 0 before looks for it for
// launch.wait_for_nodes, which is longer than a test takes.
func endsAfterTheJob(t *testing.T, n *rig.Proc) {
	t.Helper()
	ended, asked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(asked)
		for {
			select {
			case <-ended:
				return
			case <-time.After(100 * time.Millisecond):
			}
			if strings.HasSuffix(n.Stderr.String(), "to join the others again\n") {
				_ = n.Cmd.Process.Signal(syscall.SIGTERM) // it may have ended meanwhile
			}
		}
	}()
	n.Wait(t)
	close(ended)
	<-asked
}

// storm is random events that hit a fleet.
type storm struct {
	*fleet
	random *rand.Rand
	hit    map[int]bool   // nodes that something happened to
	over   map[int]func() // ends what is happening to a node
	joins  map[int]int    // of the nodes that were hit: how often they had joined by then
}

// newStorm is a storm of so many events, or as many as TRAINCTL_ELASTIC_EVENTS says.
func newStorm(t *testing.T, events int) (s *storm, n int) {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("TRAINCTL_ELASTIC_EVENTS"); text != "" {
		events, _ = strconv.Atoi(text)
	}
	if text := os.Getenv("TRAINCTL_ELASTIC_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("seed %d, %d events", seed, events)
	return &storm{random: rand.New(rand.NewPCG(seed, 1)), hit: map[int]bool{}, over: map[int]func(){}, joins: map[int]int{}}, events
}

// surely reports whether a node surely has the model: nothing ever happened to it, or it has joined
// since. One that nothing else has must not be hit: there would be nothing to go on with.
func (s *storm) surely(t *testing.T, node int) bool {
	before, hit := s.joins[node]
	return s.up(node) && (!hit || s.joined(t, node) > before)
}

// joined is how often a node has joined.
func (s *storm) joined(t *testing.T, node int) (n int) {
	for _, e := range rig.EventsOf[*event.Elastic](t, s.RunDir(1)) {
		if slices.Contains(e.Joined, node) {
			n++
		}
	}
	return n
}

// needed reports whether no other node surely has the model.
func (s *storm) needed(t *testing.T, node int) bool {
	for other := range s.nodes {
		if other != node && s.surely(t, other) {
			return false
		}
	}
	return true
}

// event lets something happen, or end. Node 0 hosts the store: only its rank may die.
func (s *storm) event(t *testing.T) {
	t.Helper()
	node, kind := 1+s.random.IntN(len(s.nodes)-1), s.random.IntN(5)
	if kind == 1 && s.up(node) {
		node = s.random.IntN(len(s.nodes))
	}
	s.hits(t, node, kind)
}

// up reports whether nothing is happening to a node that was started.
func (s *storm) up(node int) bool { return s.nodes[node] != nil && s.over[node] == nil }

// hits lets something of a kind happen to a node, or end.
func (s *storm) hits(t *testing.T, node, kind int) {
	t.Helper()
	up := s.up(node)
	if up && s.needed(t, node) {
		t.Logf("step %d: node %d is spared: perhaps no other one has the model", s.step(), node)
		return
	}
	switch {
	case s.nodes[node] == nil:
		t.Logf("step %d: node %d is added", s.step(), node)
		s.start(t, node)
	case !up:
		t.Logf("step %d: node %d recovers", s.step(), node)
		end := s.over[node]
		delete(s.over, node)
		end()
	case kind == 0:
		t.Logf("step %d: node %d is killed", s.step(), node)
		s.kill(t, node)
	case kind == 1:
		t.Logf("step %d: the rank of node %d is killed", s.step(), node)
		s.killRank(node)
	case kind == 2:
		t.Logf("step %d: the cable of node %d is cut", s.step(), node)
		s.cable(t, node, "down")
		s.over[node] = func() { s.cable(t, node, "up") }
	default:
		t.Logf("step %d: node %d is frozen", s.step(), node)
		s.signal(t, node, syscall.SIGSTOP)
		s.over[node] = func() { s.signal(t, node, syscall.SIGCONT) }
	}
	s.hit[node] = true
	if up {
		s.joins[node] = s.joined(t, node)
	}
}

// killRank kills the rank of a node, if it has one at the moment.
func (s *storm) killRank(node int) {
	for _, q := range s.Processes() {
		if q.IsWorker() && q.Rank() == node {
			_ = syscall.Kill(q.PID, syscall.SIGKILL) // it may have ended meanwhile
		}
	}
}

// neverStartedAgain asserts that ranks that nothing happened to are still the first processes.
func (s *storm) neverStartedAgain(t *testing.T) {
	t.Helper()
	for i, n := range s.nodes {
		if n != nil && !s.hit[i] && (strings.Contains(n.Stderr.String(), "in its place") || strings.Contains(n.Stderr.String(), "to join the others again")) {
			t.Errorf("the rank of node %d was started again:\n%s", i, n.Stderr.String())
		}
	}
}
