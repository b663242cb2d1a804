package launch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/job/etcd"
	"github.com/trainctl/trainctl/core/job/etcd/etcdtest"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/job/secret"
)

// fleet runs one launcher per entry of nproc, all in this process, and returns
// their results by node.
func fleet(t *testing.T, nproc []int, change func(node int, o *Options)) ([]Result, []error, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	endpoint := ln.Addr().String()
	ln.Close()
	key := secret.New()
	log := &buffer{}
	results, errs := make([]Result, len(nproc)), make([]error, len(nproc))
	var wg sync.WaitGroup
	for i, n := range nproc {
		o := Options{Name: "job", RunID: "fleet-" + t.Name(), Nproc: n, Nodes: len(nproc), NodeRank: i, Endpoint: endpoint, Secret: key, Grace: time.Minute,
			Log: log, Signals: make(chan os.Signal), RendezvousTimeout: time.Minute}
		change(i, &o)
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			results[i], errs[i] = Run(ctx, o)
		})
	}
	wg.Wait()
	return results, errs, log.String()
}

func TestNodesFormOneWorld(t *testing.T) {
	var mu sync.Mutex
	var got []string
	results, errs, log := fleet(t, []int{2, 1}, func(_ int, o *Options) {
		o.Command = asRole("meet")
		o.OnEvent = func(_ int, line []byte) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, string(line))
		}
	})
	slices.Sort(got)
	want := `{"all":"0 1 2","node":0,"rank":0} {"all":"0 1 2","node":0,"rank":1} {"all":"0 1 2","node":1,"rank":2}`
	if strings.Join(got, " ") != want {
		t.Errorf("%v %v %v\n%s", got, results, errs, log)
	}
	for i := range results {
		if results[i].ExitCode != ExitOK || errs[i] != nil {
			t.Errorf("node %d: %+v %v", i, results[i], errs[i])
		}
	}
}

func TestFailureOnOneNodeEndsAll(t *testing.T) {
	results, errs, log := fleet(t, []int{2, 2}, func(_ int, o *Options) {
		o.Command, o.MaxRestarts = asRole("exit:3:9"), 1
	})
	for i, res := range results {
		f := res.Failure()
		if errs[i] != nil || f == nil || f.Root.Rank != 3 || f.Root.ExitCode != 9 || res.ExitCode != ExitWorker || res.Restarts != 1 {
			t.Errorf("node %d: %+v %+v %v\n%s", i, res, f, errs[i], log)
		}
	}
	if f := results[0].Failure(); f != nil && (!slices.Equal(f.Stopped, []int{0, 1}) || !slices.Contains(f.Root.LastLines, "about to fail")) {
		t.Errorf("node 0 tells of %+v", f)
	}
}

func TestSignalOnOneNodeEndsAll(t *testing.T) {
	signals := make(chan os.Signal, 1)
	var mu sync.Mutex
	ready := 0
	results, errs, log := fleet(t, []int{1, 1}, func(node int, o *Options) {
		o.Command = asRole("idle")
		if node == 1 {
			o.Signals = signals
		}
		o.OnEvent = func(_ int, line []byte) {
			mu.Lock()
			defer mu.Unlock()
			if ready++; ready == 2 {
				signals <- syscall.SIGTERM
			}
		}
	})
	for i, res := range results {
		if errs[i] != nil || res.ExitCode != ExitTerminated {
			t.Errorf("node %d: %+v %v\n%s", i, res, errs[i], log)
		}
	}
}

// A signal on one node interrupts the run of all nodes, unless all ranks of all nodes have done their work.
func TestSignalWhenAllNodesAreDone(t *testing.T) {
	for _, tc := range []struct {
		roles [2]string // by node
		want  int
	}{
		{[2]string{"finishing", "finishing"}, ExitOK}, {[2]string{"finished", "finishing"}, ExitOK}, {[2]string{"finishing", "finished"}, ExitOK},
		{[2]string{"idle", "finishing"}, ExitTerminated}, {[2]string{"finishing", "idle"}, ExitTerminated}, {[2]string{"finished", "idle"}, ExitTerminated},
	} {
		signals := make(chan os.Signal, 1)
		var mu sync.Mutex
		told := map[int]bool{}
		results, errs, log := fleet(t, []int{1, 1}, func(node int, o *Options) {
			o.Command, o.Finished = asRole(tc.roles[node]), func(line []byte) bool { return bytes.Contains(line, []byte("rank_done")) }
			if node == 1 {
				o.Signals = signals
			}
			o.OnEvent = func(rank int, _ []byte) {
				mu.Lock()
				defer mu.Unlock()
				if !told[rank] {
					told[rank] = true
					if len(told) == 2 {
						signals <- syscall.SIGTERM
					}
				}
			}
		})
		for i, res := range results {
			if errs[i] != nil || res.ExitCode != tc.want || (res.Signal == nil) != (tc.want == ExitOK) || res.Failure() != nil {
				t.Errorf("%v: node %d: %+v %v\n%s", tc.roles, i, res, errs[i], log)
			}
		}
	}
}

// Ranks of a node that the signal reached wait for rank 0, which saves elsewhere:
// node 0's grace holds for all.
func TestGraceIsNodeZeros(t *testing.T) {
	for _, asked := range [][]int{{1}, {0, 1}} {
		signals := [2]chan os.Signal{make(chan os.Signal, 1), make(chan os.Signal, 1)}
		var mu sync.Mutex
		ready := 0
		results, errs, log := fleet(t, []int{1, 1}, func(node int, o *Options) {
			o.Signals, o.Grace = signals[node], time.Second
			o.Command = func(w rank.World) Command { return asRole(fmt.Sprintf("saving:%d:1300ms", w.Rank))(w) }
			if node == 0 {
				o.Saving = func() time.Duration { return time.Minute }
			}
			o.OnEvent = func(int, []byte) {
				mu.Lock()
				defer mu.Unlock()
				if ready++; ready == 2 {
					for _, n := range asked {
						signals[n] <- syscall.SIGTERM
					}
				}
			}
		})
		for i, res := range results {
			if errs[i] != nil || res.ExitCode != ExitPreempted {
				t.Errorf("%v asked: node %d: %+v %v\n%s", asked, i, res, errs[i], log)
			}
		}
	}
}

func TestMissingNodeTimesOut(t *testing.T) {
	res, err := Run(t.Context(), Options{RunID: "lonely", Nproc: 1, Nodes: 2, Endpoint: "127.0.0.1:0", Secret: farSecret, RendezvousTimeout: 30 * time.Millisecond,
		Command: asRole("idle"), Signals: make(chan os.Signal)})
	if err == nil || res.ExitCode != ExitRendezvous || !strings.Contains(err.Error(), "did not meet") {
		t.Errorf("%+v %v", res, err)
	}
}

func TestSignalWhileNodesAreMissing(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGINT
	res, err := Run(t.Context(), Options{RunID: "lonely", Nproc: 1, Nodes: 2, Endpoint: "127.0.0.1:0", Secret: farSecret, RendezvousTimeout: time.Hour,
		Command: asRole("idle"), Signals: signals})
	if err != nil || res.ExitCode != ExitInterrupt || res.Signal != syscall.SIGINT {
		t.Errorf("%+v %v", res, err)
	}
}

// kill -9 of one node's launcher takes its own ranks along and ends the others.
func TestLauncherThatVanishesEndsTheOthers(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	endpoint := ln.Addr().String()
	ln.Close()
	far := exec.Command(os.Args[0])
	far.Env = append(os.Environ(), roleEnv+"=far", "LAUNCH_TEST_ENDPOINT="+endpoint)
	out, err := far.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := far.Start(); err != nil {
		t.Fatal(err)
	}
	pid := make(chan int, 1)
	go func() {
		var e struct{ PID int }
		json.NewDecoder(out).Decode(&e) // its rank runs
		far.Process.Kill()
		pid <- e.PID
	}()
	res, log := run(t, farOptions(endpoint, 0))
	far.Wait()
	waitGone(t, <-pid)
	f := res.Failure()
	if f == nil || f.Root.Rank != -1 || !strings.Contains(f.Root.Message, "the launcher of node 1 is gone") || res.ExitCode != ExitWorker {
		t.Errorf("%+v %+v\n%s", res, f, log)
	}
}

// farSecret is known to the test and to the launcher that it starts.
var farSecret = func() secret.Secret {
	s, err := secret.Parse("known to both launchers")
	if err != nil {
		panic(err)
	}
	return s
}()

// A job of several nodes does not start without a secret.
func TestNodesWithoutASecretAreRefused(t *testing.T) {
	res, err := Run(t.Context(), Options{RunID: "open", Nproc: 1, Nodes: 2, Endpoint: "127.0.0.1:0", Command: asRole("idle"), Signals: make(chan os.Signal)})
	if err == nil || res.ExitCode != ExitConfig || !strings.Contains(err.Error(), "trainctl secret") {
		t.Errorf("%+v %v", res, err)
	}
}

func farOptions(endpoint string, node int) Options {
	return Options{Name: "job", RunID: "far", Nproc: 1, Nodes: 2, NodeRank: node, Endpoint: endpoint, Secret: farSecret, Grace: time.Second, MaxRestarts: 3,
		Command: asRole("idle")}
}

// Nodes of different configurations end before they start ranks, all with exit code 2, and
// without a restart.
func TestNodesOfDifferentSettings(t *testing.T) {
	results, errs, log := fleet(t, []int{1, 1}, func(node int, o *Options) {
		o.Command, o.MaxRestarts = asRole("idle"), 3
		o.Settings = []string{"run.name = job", []string{"optimizer.lr = 0.1", "optimizer.lr = 0.5"}[node]}
	})
	const want = "node 0 has optimizer.lr = 0.1, node 1 has optimizer.lr = 0.5"
	for i, r := range results {
		if r.ExitCode != ExitConfig || r.Restarts != 0 || errs[i] == nil || !strings.Contains(errs[i].Error(), want) {
			t.Errorf("node %d: %+v %v\n%s", i, r, errs[i], log)
		}
	}
}

// When the ranks of the node that hosts the store fail, the others go on: what they need stays in etcd.
func TestHostThatFailsLeavesItsJobInEtcd(t *testing.T) {
	s := etcdtest.Start(t, etcdtest.Options{})
	o := Options{Name: "job", RunID: "failing-host", Nproc: 1, Nodes: 2, Least: 1, Etcd: &etcd.Config{Endpoints: []string{s.Addr}}, Secret: secret.New(),
		Elastic: true, LostAfter: time.Minute, WaitForNodes: time.Minute, Grace: time.Second, Signals: make(chan os.Signal), Command: asRole("exit:0:1")}
	if res, err := Run(t.Context(), o); err != nil || res.ExitCode != ExitWorker || !res.Hosts {
		t.Errorf("%+v, %v", res, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := *o.Etcd
	c.Secret = o.Secret
	job, err := etcd.Connect(ctx, c, o.RunID, time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close(false)
	if h, err := job.Host(ctx); h.Rev == 0 || err != nil {
		t.Errorf("the job is over: %+v, %v", h, err)
	}
}
