//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/e2e/rig"
)

// wire joins two network namespaces through this process: every packet between
// the two hosts passes its rule. Netem does the like where a kernel has it.
type wire struct {
	names [2]string
	ends  [2]*os.File
	rule  atomic.Pointer[wireRule]
	moved [2]atomic.Int64 // bytes from end i
	busy  sync.WaitGroup
}

// wireRule decides about a packet from one end: after which delay it arrives at
// the other, whether at all, and what goes in its place. It is called by one
// goroutine for each end.
type wireRule func(from int, packet []byte) (delay time.Duration, drop bool, instead map[int][]byte)

func (w *wire) addr(i int) string { return fmt.Sprintf("10.213.78.%d", i+1) }

func hasTUN() string {
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return "this machine has no /dev/net/tun"
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return "the program ip of iproute2 is not installed"
	}
	return ""
}

// newWire makes two hosts. They go with the case.
func newWire(t rig.TB) *wire {
	t.Helper()
	w := &wire{}
	for i := range w.ends {
		w.names[i] = fmt.Sprintf("faults%d-%d", os.Getpid(), i)
		ip(t, "netns", "add", w.names[i])
		t.Cleanup(func() { ip(t, "netns", "del", w.names[i]) })
		device := fmt.Sprintf("ft%d-%d", os.Getpid()%100000, i)
		w.ends[i] = openTUN(t, device)
		ip(t, "link", "set", device, "netns", w.names[i])
		ip(t, "-n", w.names[i], "addr", "add", w.addr(i), "peer", w.addr(1-i), "dev", device)
		ip(t, "-n", w.names[i], "link", "set", device, "mtu", "9000", "up")
		ip(t, "-n", w.names[i], "link", "set", "lo", "up")
	}
	t.Cleanup(func() {
		for _, end := range w.ends {
			end.Close()
		}
		w.busy.Wait()
	})
	for i := range w.ends {
		w.busy.Go(func() { w.carry(i) })
	}
	return w
}

func ip(t rig.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func openTUN(t rig.TB, name string) *os.File {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	rig.Must(t, err)
	req, err := unix.NewIfreq(name)
	rig.Must(t, err)
	req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	rig.Must(t, unix.IoctlIfreq(fd, unix.TUNSETIFF, req))
	return os.NewFile(uintptr(fd), "tun")
}

// carry moves packets from one end to the other, in order, until it is closed.
func (w *wire) carry(from int) {
	type parcel struct {
		at   time.Time
		data []byte
	}
	queue := make(chan parcel, 4096)
	defer close(queue)
	w.busy.Go(func() {
		for p := range queue {
			time.Sleep(time.Until(p.at))
			_, _ = w.ends[1-from].Write(p.data)
		}
	})
	var last time.Time
	buf := make([]byte, 64<<10)
	for {
		n, err := w.ends[from].Read(buf)
		if errors.Is(err, os.ErrClosed) || n <= 0 {
			return
		}
		w.moved[from].Add(int64(n))
		var delay time.Duration
		if rule := w.rule.Load(); rule != nil {
			d, drop, instead := (*rule)(from, buf[:n])
			for to, packet := range instead {
				_, _ = w.ends[to].Write(packet)
			}
			if drop {
				continue
			}
			delay = d
		}
		at := time.Now().Add(delay)
		if at.Before(last) {
			at = last // no overtaking
		}
		last = at
		select {
		case queue <- parcel{at, append([]byte(nil), buf[:n]...)}:
		default: // a full queue drops, as a switch does
		}
	}
}

func (w *wire) set(rule wireRule) { w.rule.Store(&rule) }

// run prepares a program on the i-th host.
func (w *wire) run(i int, r *rig.Proc) *rig.Proc {
	r.Cmd.Args = append([]string{"ip", "netns", "exec", w.names[i], r.Cmd.Path}, r.Cmd.Args[1:]...)
	r.Cmd.Path, _ = exec.LookPath("ip")
	return r
}

// segment is a TCP segment in an IPv4 packet.
type segment struct {
	src, dst         [4]byte
	srcPort, dstPort uint16
	seq, ack         uint32
	payload          int
}

func parseSegment(p []byte) (s segment, ok bool) {
	if len(p) < 40 || p[0]>>4 != 4 || p[9] != unix.IPPROTO_TCP {
		return s, false
	}
	head := int(p[0]&15) * 4
	if len(p) < head+20 {
		return s, false
	}
	tcp := p[head:]
	copy(s.src[:], p[12:])
	copy(s.dst[:], p[16:])
	s.srcPort, s.dstPort = binary.BigEndian.Uint16(tcp), binary.BigEndian.Uint16(tcp[2:])
	s.seq, s.ack = binary.BigEndian.Uint32(tcp[4:]), binary.BigEndian.Uint32(tcp[8:])
	s.payload = len(tcp) - int(tcp[12]>>4)*4
	return s, true
}

// resets are RST segments for both sides of the connection of a segment, as a
// firewall sends them that has forgotten the connection: RFC 9293, 3.5.3.
func (s segment) resets() (forward, back []byte) {
	other := segment{src: s.dst, dst: s.src, srcPort: s.dstPort, dstPort: s.srcPort, seq: s.ack, ack: s.seq}
	return s.rst(), other.rst()
}

func (s segment) rst() []byte {
	p := make([]byte, 40)
	p[0], p[8], p[9] = 0x45, 64, unix.IPPROTO_TCP
	binary.BigEndian.PutUint16(p[2:], 40)
	copy(p[12:], s.src[:])
	copy(p[16:], s.dst[:])
	binary.BigEndian.PutUint16(p[10:], checksum(p[:20], 0))
	tcp := p[20:]
	binary.BigEndian.PutUint16(tcp, s.srcPort)
	binary.BigEndian.PutUint16(tcp[2:], s.dstPort)
	binary.BigEndian.PutUint32(tcp[4:], s.seq)
	binary.BigEndian.PutUint32(tcp[8:], s.ack)
	tcp[12], tcp[13] = 5<<4, 0x14 // RST, ACK
	pseudo := uint32(unix.IPPROTO_TCP) + 20
	for i := 12; i < 20; i += 2 {
		pseudo += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	binary.BigEndian.PutUint16(tcp[16:], checksum(tcp, pseudo))
	return p
}

// checksum is that of RFC 1071.
func checksum(b []byte, sum uint32) uint16 {
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
