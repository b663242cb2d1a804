package main

import (
	"math"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/base/cgroup"
	tcp "github.com/trainctl/trainctl/plugins/backend-tcp"
)

// One rank takes its own step; ranks with their own cores add what their reductions expose;
// ranks that share cores take as long as all their work.
func TestStep(t *testing.T) {
	c := constants{Cores: 2, Step: 9e6, Calls: 1, Buckets: 3, Bytes: 1e6, Shared: linear{Call: 10e3, Byte: 1e-3}, Crowded: []crowd{
		{Wall: perRank{Fixed: 8e6, Peer: 2e5}}, {Inproc: true, Wall: perRank{Fixed: 6e6, Peer: 1e5}}}}
	net := tcp.Cost{Alpha: 20e3, Beta: 4, Gamma: 0.1}
	bucket := net.Of("mesh", 1e6, 4)
	for _, test := range []struct {
		name string
		world
		want float64
	}{
		{"one rank", world{Ranks: 1, Hosts: 1, Cores: 2}, 9e6},
		{"shared memory: the last bucket and the scalars are exposed", world{Ranks: 2, Hosts: 1, Cores: 2}, 9e6 + 11e3 + 10e3 + 64e-3},
		{"more ranks than cores", world{Ranks: 8, Hosts: 1, Cores: 2}, 4 * (8e6 + 8*2e5)},
		{"the core with two of three ranks decides", world{Ranks: 3, Hosts: 1, Cores: 2}, 2 * (8e6 + 3*2e5)},
		{"so many that plugins run in them", world{Ranks: 16, Hosts: 1, Cores: 2, Inproc: true}, 8 * (6e6 + 16*1e5)},
		{"a slow network: buckets queue up from the first", world{Ranks: 4, Hosts: 4}, 5e6 + 3*bucket + net.Of("mesh", 64, 4)},
	} {
		got := c.step(test.world, byAlgorithm(net, "mesh"))
		if test.name == "a slow network: buckets queue up from the first" && 5e6+3*bucket < 9e6+bucket {
			t.Fatal("the network of the test is fast")
		}
		if math.Abs(got-test.want) > 1 {
			t.Errorf("%s: %.0f ns, want %.0f", test.name, got, test.want)
		}
	}
}

// Ranks with a core each share it with their plugins; waits spin, so cores with ranks are busy.
func TestBusyCores(t *testing.T) {
	c := constants{Cores: 2, Step: 9e6, CPU: 10e6, Crowded: []crowd{{Wall: perRank{Fixed: 8e6}, Busy: 0.9}}}
	alone, two, three := world{Ranks: 1, Hosts: 1, Cores: 2}, world{Ranks: 2, Hosts: 1, Cores: 2}, world{Ranks: 3, Hosts: 1, Cores: 2}
	for w, want := range map[world][2]float64{
		alone: {9e6, 10e6},
		two:   {10e6, 20e6},
		three: {16e6, 0.9 * 2 * 16e6},
	} {
		step := c.step(w, byAlgorithm(tcp.Cost{}, "mesh"))
		if cpu := c.cpu(w, step); step != want[0] || cpu != want[1] {
			t.Errorf("%+v: a step of %.0f ns with %.0f of CPU time, want %.0f and %.0f", w, step, cpu, want[0], want[1])
		}
	}
}

// The prediction takes the algorithm that the backend would.
func TestPredictionTakesTheCheapest(t *testing.T) {
	net := tcp.Cost{Alpha: 20e3, Beta: 0.8, Gamma: 0.05}
	for _, ranks := range []int{2, 16, 1024} {
		for _, reproducible := range []bool{true, false} {
			least := math.Inf(1)
			for _, a := range tcp.Algorithms(reproducible) {
				least = min(least, byAlgorithm(net, a)(1<<20, ranks))
			}
			if a, got := net.BetweenHosts(1<<20, 2, 4, reproducible); got > net.Of("chain", 1<<20, 2) {
				t.Errorf("2 hosts, reproducible %v: %s takes longer than a chain", reproducible, a)
			}
			if got := cheapest(net, reproducible)(1<<20, ranks); got != least {
				t.Errorf("%d ranks, reproducible %v: %.0f ns, the cheapest takes %.0f", ranks, reproducible, got, least)
			}
		}
	}
}

// What is derived from jobs of other sizes is not what it is compared with.
func TestReferencesAreNotChecked(t *testing.T) {
	o := options{ranks: []int{2, 4, 8, 16}}
	for isolation, kinds := range map[string]int{"isolated": 1, "inproc": 1, "auto": 2} {
		for _, hosts := range []int{0, 2, 4} {
			o.isolation, o.hosts = isolation, hosts
			cores := cgroup.Cores()
			all := o.references(cores)
			if n := len(all); n%2 != 0 || n > 2*kinds || cores == 2 && n != 2*kinds && hosts == 0 {
				t.Errorf("%s, %d hosts: %+v", isolation, hosts, all)
			}
			for i, j := range all {
				if j.Ranks <= cores || j.Ranks%max(1, hosts) != 0 || j.Ranks%cores != 0 || slices.Contains(o.ranks, j.Ranks) || i%2 == 1 && (j.Ranks <= all[i-1].Ranks || j.Isolation != all[i-1].Isolation) {
					t.Errorf("%s, %d hosts: %+v is a reference", isolation, hosts, j)
				}
			}
		}
	}
}

func TestPerRankThrough(t *testing.T) {
	if p := perRankThrough(3, 9e6, 7, 13e6); p.of(3) != 9e6 || p.of(7) != 13e6 {
		t.Errorf("%+v", p)
	}
	if p := perRankThrough(3, 9e6, 7, 8e6); p.Peer != 0 || p.of(5) != 8.5e6 {
		t.Errorf("%+v, a step that gets shorter", p)
	}
}

func TestLineThrough(t *testing.T) {
	if l := lineThrough(1000, 60e3, 101000, 110e3); l.of(1000) != 60e3 || l.of(101000) != 110e3 {
		t.Errorf("%+v", l)
	}
}
