package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainctl/trainctl/bench/internal/selfrank"
	"github.com/trainctl/trainctl/core/base/testjson"
	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/core/plugin/host"
)

// The test binary is a rank and a plugin, as the program is.
func TestMain(m *testing.M) {
	host.ServeBuiltin(selfrank.Builtins, os.Args[1:])
	if len(os.Args) == 2 && os.Args[1] == selfrank.RankArg {
		main()
		return
	}
	if len(os.Args) == 2 && os.Args[1] == peerArg {
		peer()
		return
	}
	os.Exit(m.Run())
}

// Without torch our side is measured alone, and the reason is said; without
// namespaces that table is left out likewise.
func TestOnlyTrainctlWithoutTorch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.json")
	o := options{python: filepath.Join(t.TempDir(), "python"), sizes: sizes{1024, 4096}, rounds: 2, budget: time.Millisecond, json: file}
	var out, log bytes.Buffer
	if err := measure(t.Context(), &o, &out, &log); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"gloo was left out", "-python names another", "of limit", "one host", "two network namespaces"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	r := testjson.Read[report](t, file)
	if len(r.Places) != 2 || len(r.Places[0].Rounds) != 2 {
		t.Fatalf("%+v", r)
	}
	for _, m := range r.Places {
		if m.Skipped != "" {
			t.Log(m.Skipped)
			continue
		}
		for _, round := range m.Rounds {
			if x := round.of("tcp", 4096); x.P50 <= 0 || x.World != 2 || x.Hosts != m.Hosts {
				t.Errorf("%+v", x)
			}
		}
	}
}

// peerArg makes the test binary a rank of another program.
const peerArg = "peer"

// peer opens a store of its own where torchrun's variables say.
func peer() {
	if os.Getenv("RANK") != "0" {
		return
	}
	l, err := net.Listen("tcp", net.JoinHostPort(os.Getenv("MASTER_ADDR"), os.Getenv("MASTER_PORT")))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	l.Close()
	fmt.Println(`{"backend":"gloo","bytes":1024,"p50_us":7}`)
}

// Another program's rank 0 can open its store at the master's address, on one
// host and in namespaces.
func TestPeerHasItsStore(t *testing.T) {
	p, err := selfrank.Program()
	if err != nil {
		t.Fatal(err)
	}
	p.Peer = []string{p.Exe, peerArg}
	o := options{sizes: sizes{1024}, rounds: 1, budget: time.Millisecond}
	for _, at := range places {
		m, err := o.at(t.Context(), p, at, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if m.Skipped != "" {
			t.Log(m.Skipped)
		} else if r := m.Rounds[0].of("gloo", 1024); r.P50 != 7 {
			t.Errorf("%s: %+v", at.Name, m.Rounds)
		}
	}
}

// A ratio is the median of the rounds' ratios, not the ratio of the medians:
// what disturbs a round disturbs both sides of it.
func TestRatioWithinRounds(t *testing.T) {
	both := func(tcp, gloo float64) round {
		return round{{Backend: "tcp", Bytes: 8, P50: tcp}, {Backend: "gloo", Bytes: 8, P50: gloo}}
	}
	m := measured{place: places[0], Rounds: []round{both(10, 100), both(40, 320), both(20, 500)}}
	var out bytes.Buffer
	m.print(&out)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if got, want := strings.Fields(lines[len(lines)-1]), []string{"8", "20.0", "320.0", "10.0x"}; len(got) < 4 || strings.Join(got[:4], " ") != strings.Join(want, " ") {
		t.Errorf("%q, want it to begin with %q", got, want)
	}
	if v := m.over(func(r round) float64 { return r.of("tcp", 8).Limit }); v != 0 {
		t.Errorf("a limit that was never measured is %v", v)
	}
	if r := (round{}).of("gloo", 8); r != (bench.Result{}) {
		t.Errorf("%+v", r)
	}
}
