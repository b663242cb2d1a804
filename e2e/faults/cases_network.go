//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/e2e/rig"
)

// remote starts one rank on each of the two hosts of a wire.
func (p *place) remote(t rig.TB, w *wire, args []string, more ...string) [2]*rig.Proc {
	t.Helper()
	var nodes [2]*rig.Proc
	for i := range nodes {
		r := p.Node(i, w.addr(0)+":29511", append(append([]string{"--nproc-per-node", "1"}, args[2:]...), more...)...)
		nodes[i] = w.run(i, r).Start(t)
	}
	return nodes
}

// cut breaks a running job's wire by a rule and waits for both sides.
func cut(t *trial, bound time.Duration, rule wireRule, keys ...string) {
	p, w := newPlace(t), newWire(t)
	nodes := p.remote(t, w, wide(append([]string{"train.epochs=1000000", `checkpoint.every="never"`}, keys...)...))
	p.WaitForSteps(t, nodes[0], 1, 5)
	at := time.Now()
	w.set(rule)
	steps := 0
	for i, r := range nodes {
		res := r.Wait(t)
		t.ended(res, 5).Prints(t, "FAILED").Matches(t, fmt.Sprintf(`(rank|node) %d\b`, 1-i))
		t.soon(fmt.Sprint("node ", i, " ended"), res.Since(r, at), bound)
		if steps == 0 {
			steps = p.stepsAfter(t, at.Add(2*time.Second))
		}
	}
	if steps > 0 {
		t.Errorf("%d steps were made later than 2 s after the link was cut", steps)
	}
}

// stepsAfter counts steps of run 1 that events.jsonl has after an instant.
func (p *place) stepsAfter(t rig.TB, at time.Time) (n int) {
	for line := range strings.Lines(rig.ReadFile(filepath.Join(p.RunDir(1), "events.jsonl"))) {
		_, ts, _ := strings.Cut(line, `"ts":"`)
		ts, _, _ = strings.Cut(ts, `"`)
		when, err := time.Parse(time.RFC3339Nano, ts)
		if err == nil && when.After(at) && strings.Contains(line, `"event":"step"`) {
			n++
		}
	}
	return n
}

// defaultTimeouts takes back those that wide shortens.
var defaultTimeouts = []string{`backend.timeout="5m"`}

func partition(t *trial) {
	cut(t, time.Minute, func(int, []byte) (time.Duration, bool, map[int][]byte) { return 0, true, nil }, defaultTimeouts...)
}

func oneWay(t *trial) {
	cut(t, time.Minute, func(from int, _ []byte) (time.Duration, bool, map[int][]byte) { return 0, from == 1, nil }, defaultTimeouts...)
}

// alone trains with two ranks on one host, for comparison.
func (p *place) alone(t rig.TB, args []string) {
	t.Helper()
	p.Trainctl(t, args...).Expect(t, 0)
}

func resetInFrame(t *trial) {
	p, w := newPlace(t), newWire(t)
	args := wide()
	p.alone(t, args)
	nodes := p.remote(t, w, args, "--max-restarts", "1")
	p.WaitForSteps(t, nodes[0], 2, 20)
	var large, done atomic.Int32
	var forgotten atomic.Int32 // the port of one end of the connection
	w.set(func(from int, packet []byte) (time.Duration, bool, map[int][]byte) {
		s, ok := parseSegment(packet)
		if ok && s.payload >= 4000 && from == 0 && large.Add(1) == 100 { // the hundredth piece of some buckets
			forgotten.Store(int32(s.srcPort))
		}
		port := forgotten.Load()
		if !ok || port == 0 || int32(s.srcPort) != port && int32(s.dstPort) != port {
			return 0, false, nil
		}
		done.Add(1)
		forward, back := s.resets()
		return 0, true, map[int][]byte{1 - from: forward, from: back}
	})
	for _, r := range nodes {
		t.ended(r.Wait(t), 0)
	}
	if done.Load() == 0 {
		t.Fatal("no connection was reset")
	}
	b := p.Summary(t, 2)
	if b.Restarts != 1 {
		t.Errorf("%d restarts, want 1", b.Restarts)
	}
	rig.SameParams(t, p.Summary(t, 1), b)
	t.saw("one restart, equal bits")
}

func slowPeer(t *trial) {
	p, w := newPlace(t), newWire(t)
	args := wide("train.epochs=3")
	p.alone(t, args)
	var ready [2]time.Time // when each direction is free again, at 100 Mbit/s
	w.set(func(from int, packet []byte) (time.Duration, bool, map[int][]byte) {
		now := time.Now()
		if ready[from].Before(now) {
			ready[from] = now
		}
		ready[from] = ready[from].Add(time.Duration(len(packet)) * 80 * time.Nanosecond)
		return ready[from].Sub(now), false, nil
	})
	for _, r := range p.remote(t, w, args) {
		t.ended(r.Wait(t), 0)
	}
	rig.SameParams(t, p.Summary(t, 1), p.Summary(t, 2))
	t.saw("equal bits over 100 Mbit/s (%d MB moved)", (w.moved[0].Load()+w.moved[1].Load())>>20)

	p.AddFaultyPlugin(t)
	p.Train(t, append(p.FaultArgs("dataset", "slow"), rig.Set("train.epochs=0", "train.max_steps=200")...)...).Expect(t, 0).Matches(t, `rank 1 was slower`)
	if s := p.Summary(t, 3); s.Comm.SlowestRank == nil || *s.Comm.SlowestRank != 1 {
		t.Errorf("summary.json does not name rank 1 as the slowest: %+v", s.Comm)
	}
	t.saw("a rank whose data come late is named as the slowest")
}

func jitter(t *trial) {
	p, w := newPlace(t), newWire(t)
	args := wide("train.epochs=4")
	p.alone(t, args)
	var rnd [2]*rand.Rand
	for i := range rnd {
		rnd[i] = rand.New(rand.NewPCG(48, uint64(i)))
	}
	w.set(func(from int, _ []byte) (time.Duration, bool, map[int][]byte) {
		d := time.Duration(rnd[from].IntN(3000)) * time.Microsecond
		if rnd[from].IntN(500) == 0 {
			d += 50 * time.Millisecond
		}
		return d, rnd[from].IntN(2000) == 0, nil // and a packet lost now and then
	})
	for _, r := range p.remote(t, w, args) {
		t.ended(r.Wait(t), 0)
	}
	rig.SameParams(t, p.Summary(t, 1), p.Summary(t, 2))
	t.saw("0 to 53 ms of delay and one packet of 2000 lost: equal bits")
}

func oddHosts(t *trial) {
	p := newPlace(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	rig.Must(t, err)
	defer l.Close()
	r := p.Node(0, l.Addr().String(), "--nproc-per-node", "1").Start(t).Wait(t)
	if r.Code != 1 && r.Code != 2 && r.Code != 4 {
		t.Errorf("port in use: exit code %d", r.Code)
	}
	r.Prints(t, "address already in use", fmt.Sprint(l.Addr().(*net.TCPAddr).Port)).Within(t, 20*time.Second)
	t.saw("port in use: exit %d, told", r.Code)
	r = p.Node(0, "127.0.0.1:0", "--nproc-per-node", "1").Start(t).Wait(t)
	t.saw("port 0: exit %d", r.Code)
	r.Expect(t, 2).Prints(t, "rdzv_endpoint").Within(t, 10*time.Second)

	name := fmt.Sprintf("faults%d-six", os.Getpid())
	ip(t, "netns", "add", name)
	t.Cleanup(func() { ip(t, "netns", "del", name) })
	ip(t, "-n", name, "link", "set", "lo", "up")
	ip(t, "-n", name, "addr", "del", "127.0.0.1/8", "dev", "lo")
	six := &wire{names: [2]string{name, name}}
	for _, args := range [][]string{nil, rig.Set("backend.options.shm=false")} {
		six.run(0, p.Command(append([]string{"run", p.Config}, args...)...)).Start(t).Wait(t).Expect(t, 0)
	}
	node := func(i int) *rig.Proc { return six.run(i, p.Node(i, "[::1]:29517", "--nproc-per-node", "1")).Start(t) }
	nodes := []*rig.Proc{node(0), node(1)}
	for _, r := range nodes {
		r.Wait(t).Expect(t, 0)
	}
	t.saw("IPv6 alone: one host and two nodes train")

	empty := filepath.Join(p.Dir, "empty")
	rig.Must(t, os.WriteFile(empty, nil, 0o644))
	for _, file := range []string{"/etc/hosts", "/etc/resolv.conf"} {
		if isThere(file) {
			rig.Must(t, syscall.Mount(empty, file, "", syscall.MS_BIND, ""))
			t.Cleanup(func() { rig.Must(t, syscall.Unmount(file, 0)) })
		}
	}
	p.Train(t).Expect(t, 0)
	t.saw("no resolver: trains")
}
