//go:build linux

package e2e

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nodesSecret is what place.node gives both launchers.
var nodesSecret = strings.Repeat("5ec2e7", 11)

// Whoever starts the ranks of several hosts, they want a secret, and say how one
// is made.
func TestWorkersOfSeveralHostsWantASecret(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for name, env := range map[string][]string{
		"torchrun": {"RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=1", "GROUP_RANK=0", "GROUP_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=1"},
		"srun": {"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_LOCALID=0", "SLURM_NODEID=0", "SLURM_NNODES=2", "SLURM_STEP_ID=0", "SLURM_STEP_TASKS_PER_NODE=1(x2)",
			"SLURM_STEP_NODELIST=a[1-2]", "SLURM_JOB_ID=1"},
		"mpirun":         {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=1", "MASTER_ADDR=127.0.0.1"},
		"an Indexed Job": {"JOB_COMPLETION_INDEX=0", "PET_NNODES=2", "PET_MASTER_ADDR=127.0.0.1"},
	} {
		r := p.command("worker", p.config)
		r.cmd.Env = append(r.cmd.Env, env...)
		if got := r.start(t).wait(t); got.code != 2 || !strings.Contains(got.stderr, "trainctl secret") {
			t.Errorf("%s: exit code %d:\n%s", name, got.code, got.stderr)
		}
	}
}

// A worker beside the tasks of its allocation would train alone.
func TestWorkerInABatchScript(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.command("worker", p.config)
	r.cmd.Env = append(r.cmd.Env, "SLURM_JOB_ID=2", "SLURM_JOB_NAME=bash", "SLURM_NNODES=1", "SLURM_NTASKS=2", "SLURM_TASKS_PER_NODE=2") // as in the shell of salloc -n2
	r.start(t).wait(t).expect(t, 2).says(t, "srun trainctl worker")
	batch := p.command("run", p.config) // one launcher of a script that asked for two cores
	batch.cmd.Env = append(batch.cmd.Env, "ENVIRONMENT=BATCH", "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_JOB_ID=2", "SLURM_NNODES=1", "SLURM_NTASKS=2", "SLURM_TASKS_PER_NODE=2")
	batch.start(t).wait(t).expect(t, 0)
}

// Strangers come before the real node 1: with another secret, and with a
// certificate of their own. They are turned away, the first at once and with
// the reason on its own terminal, and the job trains what it would without them.
func TestStrangersDoNotTakeANodesPlace(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.train(t).expect(t, 0)
	endpoint := fmt.Sprint("127.0.0.1:", freePort(t))
	first := p.node(0, endpoint, "--nproc-per-node", "1").start(t)
	listening(t, endpoint)

	poison := p.node(1, endpoint, "--nproc-per-node", "1", "--set", "optimizer.lr=5")
	poison.cmd.Env = append(poison.cmd.Env, "TRAINCTL_JOB_SECRET="+strings.Repeat("guess", 9))
	poison.start(t).wait(t).expect(t, 2).within(t, 20*time.Second).says(t, "has a different secret", "TRAINCTL_JOB_SECRET")
	if answer := selfSigned(t, endpoint); len(answer) > 0 {
		t.Errorf("a stranger was answered with %q", answer)
	}

	other := p.node(1, endpoint, "--nproc-per-node", "1").start(t)
	r := first.wait(t).expect(t, 0).says(t, "it has a different one; give all hosts the same TRAINCTL_JOB_SECRET")
	other.wait(t).expect(t, 0)
	sameParams(t, p.summary(t, 1), p.summary(t, 2))
	if n := strings.Count(r.stderr, "refused"); n > 3 {
		t.Errorf("%d lines about strangers:\n%s", n, r.stderr)
	}
}

func listening(t *testing.T, address string) {
	t.Helper()
	eventually(t, "a listener at "+address, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// selfSigned speaks TLS with a key that nobody knows, sends what could be a rank's
// first words, and gives the answer.
func selfSigned(t *testing.T, address string) []byte {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, public, key)
	must(t, err)
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		return nil
	}
	defer conn.Close()
	_, _ = conn.Write(make([]byte, 64))
	must(t, conn.SetReadDeadline(time.Now().Add(patience)))
	answer, _ := io.ReadAll(conn)
	return answer
}

// One job of two nodes that train over sockets is looked at from all sides while
// it runs.
func TestWhatARunningJobGivesAway(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	base := freePorts(t, 12)
	endpoint := fmt.Sprint("127.0.0.1:", base)
	ports := fmt.Sprintf("launch.port_range=%q", fmt.Sprintf("%d-%d", base, base+11))
	args := append(endless(ports, "backend.options.shm=false", "backend.options.tls=true"), "--nproc-per-node", "1", "--events", "json")
	nodes := []*proc{p.node(0, endpoint, args...).start(t), p.node(1, endpoint, args...).start(t)}
	p.trained(t, nodes[0], 1, 3)

	t.Run("ports", func(t *testing.T) {
		found := p.listeners(t)
		if len(found) < 2 {
			t.Errorf("only %v listen", found)
		}
		for _, port := range found {
			if port < base || port > base+11 {
				t.Errorf("a process listens on %d, outside %d-%d", port, base, base+11)
			}
		}
	})
	t.Run("environments", func(t *testing.T) { p.looksForTheSecret(t) })
	t.Run("descriptors", func(t *testing.T) { p.looksAtPlugins(t) })

	kill(t, p.worker(t, 1).pid, syscall.SIGKILL) // so that there is crash text
	for _, n := range nodes {
		r := n.wait(t).expect(t, 5)
		if strings.Contains(r.stdout+r.stderr, nodesSecret) {
			t.Error("the output tells the secret")
		}
	}
	p.searchFiles(t, nodesSecret)
}

// freePorts is the first of n neighbouring ports that nobody listens on.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	for range 100 {
		first := freePort(t)
		free := first+n < 65536
		for port := first; free && port < first+n; port++ {
			l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
			if free = err == nil; free {
				must(t, l.Close())
			}
		}
		if free {
			return first
		}
	}
	t.Fatal("no free range of ports")
	return 0
}

// listeners are the TCP ports on which processes of the place listen.
func (p *place) listeners(t *testing.T) (ports []int) {
	t.Helper()
	inodes := map[string]bool{}
	for _, q := range p.processes() {
		for _, to := range descriptors(q.pid) {
			if inode, is := strings.CutPrefix(to, "socket:["); is {
				inodes[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(table)
		must(t, err)
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" || !inodes[f[9]] {
				continue
			}
			_, hex, _ := strings.Cut(f[1], ":")
			port, err := strconv.ParseInt(hex, 16, 32)
			must(t, err)
			ports = append(ports, int(port))
		}
	}
	return ports
}

// descriptors are what a process has open, by number.
func descriptors(pid int) map[int]string {
	found := map[int]string{}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		n, _ := strconv.Atoi(filepath.Base(link))
		if to, err := os.Readlink(link); err == nil {
			found[n] = to
		}
	}
	return found
}

// looksForTheSecret reads what /proc shows of every process of the job.
func (p *place) looksForTheSecret(t *testing.T) {
	all := p.processes()
	plugins := 0
	for _, q := range all {
		if q.plugin() != "" {
			plugins++
		}
		if strings.Contains(strings.Join(append(q.env, q.args...), "\n"), nodesSecret) {
			t.Errorf("process %d (%v) shows the secret", q.pid, q.args[:2])
		}
	}
	if len(all) < 8 || plugins < 4 {
		t.Errorf("only %d processes, %d plugins", len(all), plugins)
	}
}

// looksAtPlugins asserts that a plugin shares no pipe with the launchers, as the
// event pipe of its rank would be, and has no open file of the run.
func (p *place) looksAtPlugins(t *testing.T) {
	all := p.processes()
	var launchers []string
	for _, q := range all {
		if len(q.args) > 1 && q.args[1] == "run" {
			for n, to := range descriptors(q.pid) {
				if n > 2 && strings.HasPrefix(to, "pipe:") {
					launchers = append(launchers, to)
				}
			}
		}
	}
	if len(launchers) == 0 {
		t.Error("the launchers have no pipes")
	}
	for _, q := range all {
		if q.plugin() == "" {
			continue
		}
		for n, to := range descriptors(q.pid) {
			if slices.Contains(launchers, to) || strings.HasPrefix(to, filepath.Join(p.dir, "runs")) || strings.HasPrefix(to, filepath.Join(p.dir, "elsewhere")) {
				t.Errorf("the %s plugin has descriptor %d open: %s", q.plugin(), n, to)
			}
		}
	}
}

// searchFiles asserts that no file of the place holds a text, but the executable,
// which is hard linked.
func (p *place) searchFiles(t *testing.T, text string) {
	t.Helper()
	files := 0
	must(t, filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || path == p.exe {
			return err
		}
		b, err := os.ReadFile(path)
		files++
		if bytes.Contains(b, []byte(text)) {
			t.Errorf("%s holds the secret", path)
		}
		return err
	}))
	if files < 6 {
		t.Errorf("only %d files", files)
	}
}

// A range that is used up is told as such, on the node that needs a port.
func TestPortRangeIsUsedUp(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	port := freePorts(t, 2) // one for the launchers to meet, and no other
	endpoint := fmt.Sprint("127.0.0.1:", port)
	busy, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port+1))
	must(t, err)
	defer busy.Close()
	text := fmt.Sprintf("%d-%d", port, port+1)
	flags := []string{"--nproc-per-node", "1", "--set", fmt.Sprintf("launch.port_range=%q", text)}
	other := p.node(1, endpoint, flags...).start(t)
	first := p.node(0, endpoint, flags...).start(t).wait(t)
	if first.code == 0 {
		t.Errorf("it went on:\n%s", first.stderr)
	}
	first.says(t, "launch.port_range = "+text, "fix: widen the range")
	if r := other.wait(t); r.code == 0 {
		t.Errorf("node 1 went on:\n%s", r.stderr)
	}
}
