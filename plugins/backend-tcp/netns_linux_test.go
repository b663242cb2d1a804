package tcp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/shm"
	"github.com/trainctl/trainctl/core/tensor"
)

// Two network namespaces joined by a veth pair are two hosts to this backend:
// neither loopback nor abstract sockets reach from one to the other.

const (
	netnsRank  = "TRAINCTL_TEST_NETNS_RANK" // makes this binary a rank
	netnsWorld = 4
	netnsSize  = 4 << 20
)

func netnsIP(host int) string { return fmt.Sprintf("10.213.77.%d", host+1) }

// TestNamespaces runs two hosts with two ranks each; then the link is cut.
func TestNamespaces(t *testing.T) {
	names := namespaces(t)
	var all []*netnsProcess
	for r := range netnsWorld {
		all = append(all, startRank(t, names[r/2], r))
	}
	var endpoints []json.RawMessage
	for _, p := range all {
		endpoints = append(endpoints, json.RawMessage(p.line(t)))
	}
	list, err := json.Marshal(endpoints)
	if err != nil {
		t.Fatal(err)
	}
	say(t, all, string(list))
	for r, p := range all {
		if got, want := p.line(t), "2 ranks per host, sum ok"; got != want {
			t.Fatalf("rank %d: %q, want %q", r, got, want)
		}
	}
	ip(t, "-n", names[0], "link", "set", "veth0", "down")
	say(t, all, "go")
	for r, p := range all {
		if got := p.line(t); !strings.HasPrefix(got, "stall") && !strings.HasPrefix(got, "peer") {
			t.Errorf("rank %d over the cut link: %q", r, got)
		}
	}
}

// namespaces makes two hosts, or skips with the reason.
func namespaces(t *testing.T) (names [2]string) {
	t.Helper()
	if testing.Short() {
		t.Skip("network namespaces take a while to set up")
	}
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("the program ip of iproute2 is not installed")
	}
	for h := range names {
		names[h] = fmt.Sprintf("trainctl-test-%d-%d", os.Getpid(), h)
		if out, err := exec.Command("ip", "netns", "add", names[h]).CombinedOutput(); err != nil {
			t.Skipf("no network namespaces here: %s", out)
		}
		t.Cleanup(func() { ip(t, "netns", "del", names[h]) })
	}
	ip(t, "-n", names[0], "link", "add", "veth0", "type", "veth", "peer", "name", "veth1", "netns", names[1])
	for h, n := range names {
		dev := fmt.Sprintf("veth%d", h)
		ip(t, "-n", n, "addr", "add", netnsIP(h)+"/24", "dev", dev)
		ip(t, "-n", n, "link", "set", dev, "up")
		ip(t, "-n", n, "link", "set", "lo", "up")
	}
	return names
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// netnsProcess is a rank in a namespace; the test talks to it in lines.
type netnsProcess struct {
	in  io.Writer
	out *bufio.Reader
}

func startRank(t *testing.T, netns string, rank int) *netnsProcess {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ip", "netns", "exec", netns, exe)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", netnsRank, rank))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Process.Kill(); cmd.Wait() })
	return &netnsProcess{in, bufio.NewReader(out)}
}

func (p *netnsProcess) line(t *testing.T) string {
	t.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("a rank ended after %q: %v", s, err)
	}
	return strings.TrimSpace(s)
}

func say(t *testing.T, all []*netnsProcess, line string) {
	t.Helper()
	for _, p := range all {
		if _, err := fmt.Fprintln(p.in, line); err != nil {
			t.Fatal(err)
		}
	}
}

// runNetnsRank is the rank's side.
func runNetnsRank(rank int) error {
	in := bufio.NewReader(os.Stdin)
	b := New()
	defer b.Close()
	g := testGroup(rank, netnsWorld)
	g.Timeout = 20 * time.Second
	if err := b.Open(b.life, g, sdk.Options{"interface": netnsIP(rank / 2)}); err != nil {
		return err
	}
	mem, err := shm.New("netns", netnsSize)
	if err != nil {
		return err
	}
	arena := &sdk.Arena{ID: 1, Name: "netns", Arena: mem}
	if err := b.Attach(b.life, arena); err != nil {
		return err
	}
	mine, err := b.Listen(b.life)
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
	if err := b.Connect(b.life, endpoints); err != nil {
		return err
	}
	fmt.Println(sumOverHosts(b, arena))
	if _, err := in.ReadBytes('\n'); err != nil { // the link is cut
		return nil
	}
	b.group.Timeout = time.Second
	fmt.Println(describe(b.Do(b.life, sumOf(mem.Bytes(), arena, 2))))
	_, _ = in.ReadBytes('\n')
	return nil
}

// sumOverHosts checks an all-reduce in words.
func sumOverHosts(b *Backend, arena *sdk.Arena) string {
	x := tensor.View[float32](arena.Bytes())
	for i := range x {
		x[i] = float32(b.group.Rank + i%1000)
	}
	if err := b.Do(b.life, sumOf(arena.Bytes(), arena, 1)); err != nil {
		return err.Error()
	}
	for i, v := range x {
		if want := float32(0 + 1 + 2 + 3 + 4*(i%1000)); v != want {
			return fmt.Sprintf("element %d is %v, want %v", i, v, want)
		}
	}
	return fmt.Sprintf("%d ranks per host, sum ok", b.topology.perHost)
}

func describe(err error) string {
	var stall *sdk.StallError
	var dead *sdk.PeerError
	switch {
	case errors.As(err, &stall):
		return fmt.Sprintf("stall: ranks %v missing", stall.Missing)
	case errors.As(err, &dead):
		return fmt.Sprintf("peer %d: %s", dead.Peer, dead.Cause)
	}
	return fmt.Sprintf("unexpected: %v", err)
}

// init lets the test binary be a rank instead.
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
