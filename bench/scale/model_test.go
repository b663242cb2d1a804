package main

import (
	"math"
	"testing"

	tcp "github.com/trainctl/trainctl/plugins/backend-tcp"
)

// One rank takes its own step; ranks with their own cores add what their reductions expose;
// ranks that share cores take as long as all their work.
func TestStep(t *testing.T) {
	c := constants{Cores: 2, Step: 9e6, Calls: 1, Buckets: 3, Bytes: 1e6,
		Shared: linear{Call: 10e3, Byte: 1e-3}, Crowded: linear{Call: 50e3, Byte: 2e-3}, NetCPU: linear{Call: 5e3, Byte: 1}}
	net := tcp.Cost{Alpha: 20e3, Beta: 4, Gamma: 0.1}
	bucket := net.Of("mesh", 1e6, 4)
	for _, test := range []struct {
		name string
		world
		want float64
	}{
		{"one rank", world{Ranks: 1, Hosts: 1, Cores: 2}, 9e6},
		{"shared memory: the last bucket and the scalars are exposed", world{Ranks: 2, Hosts: 1, Cores: 2}, 9e6 + 11e3 + 10e3 + 64e-3},
		{"more ranks than cores", world{Ranks: 8, Hosts: 1, Cores: 2}, 4 * (9e6 + 3*52e3 + 50e3 + 0.128)},
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

// The prediction takes the algorithm that the backend would.
func TestPredictionTakesTheCheapest(t *testing.T) {
	net := tcp.Cost{Alpha: 20e3, Beta: 0.8, Gamma: 0.05}
	for _, ranks := range []int{2, 16, 1024} {
		for _, reproducible := range []bool{true, false} {
			least := math.Inf(1)
			for _, a := range tcp.Algorithms(reproducible) {
				least = min(least, byAlgorithm(net, a)(1<<20, ranks))
			}
			if got := cheapest(net, reproducible)(1<<20, ranks); got != least {
				t.Errorf("%d ranks, reproducible %v: %.0f ns, the cheapest takes %.0f", ranks, reproducible, got, least)
			}
		}
	}
}

func TestLineThrough(t *testing.T) {
	if l := lineThrough(1000, 60e3, 101000, 110e3); l.of(1000) != 60e3 || l.of(101000) != 110e3 {
		t.Errorf("%+v", l)
	}
}
