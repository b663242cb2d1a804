//go:build !portable

package tcp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Two network namespaces joined by virtual Ethernet are two hosts for this backend. In
// each run two ranks, which are processes of this test binary.

const (
	netnsRank  = "TRAINCTL_TEST_NETNS_RANK" // makes this binary a rank
	netnsAddr  = "TRAINCTL_TEST_NETNS_ADDR" // where it listens
	netnsTLS   = "TRAINCTL_TEST_NETNS_TLS"
	netnsWorld = 4
	netnsSize  = 4 << 20
)

// The sum is right over a slow link, and the link carries the buffer once in each
// direction, with and without TLS.
func TestNamespaces(t *testing.T) {
	for name, tls := range map[string]bool{"plain": false, "tls": true} {
		t.Run(name, func(t *testing.T) {
			h, all := hostsWithRanks(t, tls)
			shape(t, h, 0, "tbf", "rate", "400mbit", "burst", "256kb", "latency", "50ms")
			before := sentBytes(t, h, 0)
			all.say(t, "sum 1 20s")
			for r, p := range all {
				if got, want := p.line(t), "2 ranks per host, sum ok"; got != want {
					t.Errorf("rank %d: %q, want %q", r, got, want)
				}
			}
			if n := sentBytes(t, h, 0) - before; n < netnsSize || n > netnsSize*5/4 {
				t.Errorf("%d bytes left the first host for a buffer of %d", n, netnsSize)
			}
		})
	}
}

// If the link breaks during an operation, it fails at its deadline on every rank, with
// an error that names ranks on the other side.
func TestCutLink(t *testing.T) {
	h, all := hostsWithRanks(t, false)
	shape(t, h, 0, "tbf", "rate", "20mbit", "burst", "32kb", "latency", "50ms")
	before := sentBytes(t, h, 0)
	all.say(t, "sum 1 2s")
	for sentBytes(t, h, 0)-before < netnsSize/20 { // until it is well under way
	}
	command(t, "ip", "-n", h.Name(0), "link", "set", h.Device(), "down")
	all.blame(t, func(rank int) []int { return []int{2 - rank/2*2, 3 - rank/2*2} })
}

// If packets are lost in one direction only, the ranks that receive nothing name the
// senders.
func TestOneWayLoss(t *testing.T) {
	h, all := hostsWithRanks(t, false)
	all.say(t, "sum 1 20s")
	for r, p := range all {
		if got := p.line(t); !strings.HasSuffix(got, "sum ok") {
			t.Fatalf("rank %d: %q", r, got)
		}
	}
	// Frames to an unused address of the network are dropped silently.
	command(t, "ip", "-n", h.Name(1), "neigh", "replace", h.Addr(0), "lladdr", "02:00:00:00:00:01", "dev", h.Device(), "nud", "permanent")
	all.say(t, "sum 2 2s")
	all.blame(t, func(rank int) []int { return []int{2 - rank/2*2, 3 - rank/2*2} })
}

// A process that is killed is named by all ranks, on its host and on the other, long
// before their deadline.
func TestKilledAcrossHosts(t *testing.T) {
	_, all := hostsWithRanks(t, false)
	const victim = 3
	all[:victim].say(t, "sum 1 10m")
	if err := all[victim].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for r, p := range all[:victim] {
		if got := p.line(t); !strings.HasPrefix(got, "peer 3: ") {
			t.Errorf("rank %d: %q does not name rank %d", r, got, victim)
		}
	}
}

// netnsGroup are the ranks of one job, by rank.
type netnsGroup []*netnsProcess

// netnsProcess is a rank in a namespace; the test controls it by lines.
type netnsProcess struct {
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

// hostsWithRanks starts a connected group, or skips with the reason.
func hostsWithRanks(t *testing.T, tls bool) (*bench.Hosts, netnsGroup) {
	t.Helper()
	if testing.Short() {
		t.Skip("network namespaces take a while to set up")
	}
	h, err := bench.NewHosts(2)
	if errors.Is(err, bench.ErrNoHosts) {
		t.Skipf("needs network namespaces: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	var all netnsGroup
	for r := range netnsWorld {
		all = append(all, startRank(t, h, r, tls))
	}
	var endpoints []json.RawMessage
	for _, p := range all {
		endpoints = append(endpoints, json.RawMessage(p.line(t)))
	}
	list, err := json.Marshal(endpoints)
	if err != nil {
		t.Fatal(err)
	}
	all.say(t, string(list))
	for r, p := range all {
		if got := p.line(t); got != "connected" {
			t.Fatalf("rank %d: %q", r, got)
		}
	}
	return h, all
}

func startRank(t *testing.T, h *bench.Hosts, rank int, tls bool) *netnsProcess {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &netnsProcess{cmd: h.Command(t.Context(), rank/2, exe)}
	p.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", netnsRank, rank), netnsAddr+"="+h.Addr(rank/2), fmt.Sprintf("%s=%v", netnsTLS, tls))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cmd.Process.Kill(); p.cmd.Wait() })
	return p
}

func (p *netnsProcess) line(t *testing.T) string {
	t.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("a rank ended after %q: %v", s, err)
	}
	return strings.TrimSpace(s)
}

func (g netnsGroup) say(t *testing.T, line string) {
	t.Helper()
	for _, p := range g {
		if _, err := fmt.Fprintln(p.in, line); err != nil {
			t.Fatal(err)
		}
	}
}

// blame checks that every rank ended with an error, which names at least one
// of the ranks that it may name and no other.
func (g netnsGroup) blame(t *testing.T, may func(rank int) []int) {
	t.Helper()
	for r, p := range g {
		got := p.line(t)
		var named []int
		if list, ok := strings.CutPrefix(got, "stall: "); ok {
			for _, word := range strings.Fields(list) {
				n, err := strconv.Atoi(word)
				if err != nil {
					t.Fatalf("rank %d: %q", r, got)
				}
				named = append(named, n)
			}
		} else if _, err := fmt.Sscanf(got, "peer %d:", new(int)); err == nil {
			var n int
			fmt.Sscanf(got, "peer %d:", &n)
			named = []int{n}
		}
		if len(named) == 0 || slices.ContainsFunc(named, func(n int) bool { return !slices.Contains(may(r), n) }) {
			t.Errorf("rank %d says %q, it may name %v", r, got, may(r))
		}
	}
}

// shape sets the queueing discipline of a host's outgoing traffic.
func shape(t *testing.T, h *bench.Hosts, host int, discipline ...string) {
	t.Helper()
	if _, err := exec.LookPath("tc"); err != nil {
		t.Skip("the program tc of iproute2 is not installed")
	}
	args := append([]string{"-n", h.Name(host), "qdisc", "replace", "dev", h.Device(), "root"}, discipline...)
	if out, err := exec.Command("tc", args...).CombinedOutput(); err != nil {
		t.Skipf("this kernel has no %s: %s", discipline[0], out)
	}
}

// sentBytes returns the bytes that a host has sent.
func sentBytes(t *testing.T, h *bench.Hosts, host int) int {
	t.Helper()
	var links []struct {
		Stats struct {
			TX struct {
				Bytes int `json:"bytes"`
			} `json:"tx"`
		} `json:"stats64"`
	}
	out := command(t, "ip", "-n", h.Name(host), "-s", "-j", "link", "show", "dev", h.Device())
	if err := json.Unmarshal(out, &links); err != nil || len(links) != 1 {
		t.Fatalf("%s: %v", out, err)
	}
	return links[0].Stats.TX.Bytes
}

func command(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// runNetnsRank is the rank's process: it prints its endpoint, reads all endpoints, and
// reduces for every line that it reads.
func runNetnsRank(rank int) error {
	in := bufio.NewReader(os.Stdin)
	b := New()
	defer b.Close()
	g := testGroup(rank, netnsWorld)
	o := sdk.Options{"interface": os.Getenv(netnsAddr), "tls": os.Getenv(netnsTLS) == "true"}
	if err := b.Open(b.life.Context, g, o); err != nil {
		return err
	}
	mem, err := shm.New("netns", netnsSize)
	if err != nil {
		return err
	}
	arena := &sdk.Arena{ID: 1, Name: "netns", Arena: mem}
	if err := b.Attach(b.life.Context, arena); err != nil {
		return err
	}
	mine, err := b.Listen(b.life.Context)
	if err != nil {
		return err
	}
	fmt.Println(string(mine))
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(line, &list); err != nil {
		return err
	}
	endpoints := make([][]byte, len(list))
	for i := range list {
		endpoints[i] = list[i]
	}
	if err := b.Connect(b.life.Context, endpoints); err != nil {
		return err
	}
	fmt.Println("connected")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil
		}
		var seq int
		var timeout string
		if _, err := fmt.Sscanf(line, "sum %d %s", &seq, &timeout); err != nil {
			return err
		}
		if b.group.Timeout, err = time.ParseDuration(timeout); err != nil {
			return err
		}
		fmt.Println(sumOverHosts(b, arena, seq))
	}
}

// sumOverHosts runs an all-reduce and describes the result.
func sumOverHosts(b *Backend, arena *sdk.Arena, seq int) string {
	x := tensor.View[float32](arena.Bytes())
	for i := range x {
		x[i] = float32(b.group.Rank + i%1000)
	}
	if err := b.Do(b.life.Context, sumOf(arena.Bytes(), arena, seq)); err != nil {
		return describe(err)
	}
	for i, v := range x {
		if want := float32(0 + 1 + 2 + 3 + 4*(i%1000)); v != want {
			return fmt.Sprintf("element %d is %v, want %v", i, v, want)
		}
	}
	return fmt.Sprintf("%d ranks per host, sum ok", b.topology.rails)
}

func describe(err error) string {
	var stall *sdk.StallError
	var dead *sdk.PeerError
	switch {
	case errors.As(err, &stall):
		return "stall: " + strings.Trim(fmt.Sprint(stall.Missing), "[]")
	case errors.As(err, &dead):
		return fmt.Sprintf("peer %d: %s", dead.Peer, dead.Cause)
	}
	return fmt.Sprintf("unexpected: %v", err)
}

// init runs a rank instead of the tests.
func init() {
	var rank int
	if _, err := fmt.Sscan(os.Getenv(netnsRank), &rank); err != nil {
		return
	}
	if err := runNetnsRank(rank); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
