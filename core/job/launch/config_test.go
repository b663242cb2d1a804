package launch

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestConfigDefaultIsSound(t *testing.T) {
	if p := Default().Problems(); len(p) != 0 {
		t.Error(p)
	}
	if g := Default().Grace.Std(); g != 5*time.Second {
		t.Error(g)
	}
}

// What TOML decodes to reaches the settings, and every problem is reported.
func TestConfigProblems(t *testing.T) {
	c := Default()
	c.NprocPerNode.UnmarshalTOML(int64(0))
	c.ThreadsPerRank.UnmarshalTOML("many")
	c.Nnodes.UnmarshalTOML("4:1")
	c.Grace.UnmarshalTOML(int64(5))
	c.NodeRank, c.MaxRestarts = 1, -1
	var got []string
	for _, p := range c.Problems() {
		got = append(got, p.String())
	}
	want := []string{
		`nproc_per_node: "0" is not a number from 1 up (a number from 1 up, or "auto")`,
		`threads_per_rank: "many" is not a number from 1 up (a number from 1 up, or "auto")`,
		`nnodes: "4:1" is not a number from 1 up (a number from 1 up, or a range such as "2:8")`,
		`max_restarts: -1 is negative (0 never restarts)`,
		`grace: "5" is not a duration from 0 up (write a duration such as "5s", or "auto")`,
		`node_rank: 1 is outside 1 nodes (0 to 0)`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	c = Default()
	c.Nnodes.UnmarshalTOML("auto")
	if len(c.Problems()) != 1 {
		t.Error(c.Problems())
	}
	c.Nnodes.UnmarshalTOML(int64(2))
	c.RdzvEndpoint = "node0"
	if p := c.Problems(); len(p) != 1 || p[0].Key != "rdzv_endpoint" {
		t.Error(p)
	}
	c.RdzvEndpoint = "node0:29400"
	if p := c.Problems(); len(p) != 0 || c.Nnodes.Int() != 2 || c.IsElastic() {
		t.Error(p)
	}
	c.Nnodes.UnmarshalTOML("2:8")
	if p := c.Problems(); len(p) != 0 || c.Nnodes.Least() != 2 || c.Nnodes.Int() != 8 || c.Nnodes.String() != "2:8" || !c.IsElastic() {
		t.Error(p)
	}
	c.NprocPerNode.UnmarshalTOML("1:2")
	if p := c.Problems(); len(p) != 1 || p[0].Key != "nproc_per_node" {
		t.Error(p)
	}
}

func TestConfigNumbers(t *testing.T) {
	c := Default()
	for _, tc := range []struct{ gpus, cores, nproc, threads int }{{0, 1, 1, 1}, {0, 2, 2, 1}, {0, 64, 2, 32}, {8, 64, 8, 8}, {8, 4, 8, 1}} {
		n := c.Nproc(tc.gpus, tc.cores)
		if n != tc.nproc || c.Threads(n, tc.cores) != tc.threads {
			t.Errorf("%+v: %d ranks, %d threads", tc, n, c.Threads(n, tc.cores))
		}
	}
	c.NprocPerNode, c.ThreadsPerRank = N(3), N(5)
	if c.Nproc(8, 64) != 3 || c.Threads(3, 64) != 5 {
		t.Error("fixed numbers are overridden")
	}
	for _, s := range []string{"auto", "4"} {
		var n Count
		n.UnmarshalText([]byte(s))
		if n.String() != s {
			t.Errorf("%q became %q", s, n)
		}
	}
}

// Plugins share the process of their rank where there are many more ranks than cores, or where
// the configuration says so.
func TestIsolation(t *testing.T) {
	for _, tc := range []struct {
		isolation    string
		ranks, cores int
		want         bool
	}{{"auto", 8, 2, false}, {"auto", 9, 2, true}, {"auto", 8, 64, false}, {"isolated", 64, 2, false}, {"inproc", 1, 64, true}} {
		c := Default()
		c.Isolation = tc.isolation
		if got, p := c.InRank(tc.ranks, tc.cores), c.Problems(); got != tc.want || len(p) > 0 {
			t.Errorf("%+v: %v, %v", tc, got, p)
		}
	}
	c := Default()
	c.Isolation = "none"
	if p := c.Problems(); len(p) != 1 || p[0].Key != "isolation" {
		t.Error(p)
	}
}
