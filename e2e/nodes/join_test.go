//go:build linux

package nodes

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

	"github.com/trainctl/trainctl/core/job/secret"
	"github.com/trainctl/trainctl/e2e/rig"
)

// Jobs of several hosts require a secret, whoever starts the ranks, and the error says how to
// make one.
func TestWorkersOfSeveralHostsWantASecret(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	for name, env := range map[string][]string{
		"torchrun": {"RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=1", "GROUP_RANK=0", "GROUP_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=1"},
		"srun": {"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_LOCALID=0", "SLURM_NODEID=0", "SLURM_NNODES=2", "SLURM_STEP_ID=0", "SLURM_STEP_TASKS_PER_NODE=1(x2)",
			"SLURM_STEP_NODELIST=a[1-2]", "SLURM_JOB_ID=1"},
		"mpirun":         {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=1", "MASTER_ADDR=127.0.0.1"},
		"an Indexed Job": {"JOB_COMPLETION_INDEX=0", "PET_NNODES=2", "PET_MASTER_ADDR=127.0.0.1"},
	} {
		r := p.Command("worker", p.Config)
		r.Cmd.Env = append(r.Cmd.Env, env...)
		if got := r.Start(t).Wait(t); got.Code != 2 || !strings.Contains(got.Stderr, "trainctl secret") {
			t.Errorf("%s: exit code %d:\n%s", name, got.Code, got.Stderr)
		}
	}
}

// A worker beside the tasks of its allocation would train alone.
func TestWorkerInABatchScript(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	r := p.Command("worker", p.Config)
	r.Cmd.Env = append(r.Cmd.Env, "SLURM_JOB_ID=2", "SLURM_JOB_NAME=bash", "SLURM_NNODES=1", "SLURM_NTASKS=2", "SLURM_TASKS_PER_NODE=2") // as in the shell of salloc -n2
	r.Start(t).Wait(t).Expect(t, 2).Prints(t, "srun trainctl worker")
	batch := p.Command("run", p.Config) // one launcher of a script that asked for two cores
	batch.Cmd.Env = append(batch.Cmd.Env, "ENVIRONMENT=BATCH", "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_JOB_ID=2", "SLURM_NNODES=1", "SLURM_NTASKS=2", "SLURM_TASKS_PER_NODE=2")
	batch.Start(t).Wait(t).Expect(t, 0)
}

// Strangers come before the real node 1: with another secret, and with a
// certificate of their own. They are refused, the first at once and with
// the reason on its own terminal, and the job trains what it would without them.
func TestStrangersDoNotTakeANodesPlace(t *testing.T) {
	t.Parallel()
	p, endpoint := compared(t)
	first := p.Node(0, endpoint, "--nproc-per-node", "1").Start(t)
	listening(t, endpoint)

	poison := p.Node(1, endpoint, "--nproc-per-node", "1", "--set", "optimizer.lr=5")
	poison.Cmd.Env = append(poison.Cmd.Env, "TRAINCTL_JOB_SECRET="+strings.Repeat("guess", 9))
	poison.Start(t).Wait(t).Expect(t, 2).Soon(t).Prints(t, "has a different secret", "TRAINCTL_JOB_SECRET")
	if answer := selfSigned(t, endpoint); len(answer) > 0 {
		t.Errorf("a stranger was answered with %q", answer)
	}

	other := p.Node(1, endpoint, "--nproc-per-node", "1").Start(t)
	r := first.Wait(t).Expect(t, 0).Prints(t, "it has a different one; give all hosts the same TRAINCTL_JOB_SECRET")
	other.Wait(t).Expect(t, 0)
	rig.SameParams(t, p.Summary(t, 1), p.Summary(t, 2))
	if n := strings.Count(r.Stderr, "refused"); n > 3 {
		t.Errorf("%d lines about strangers:\n%s", n, r.Stderr)
	}
}

func listening(t *testing.T, address string) {
	t.Helper()
	rig.Eventually(t, "a listener at "+address, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// selfSigned opens a TLS connection with an unknown key, sends what could be a rank's
// first message, and returns the answer.
func selfSigned(t *testing.T, address string) []byte {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	rig.Must(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, public, key)
	rig.Must(t, err)
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		return nil
	}
	defer conn.Close()
	_, _ = conn.Write(make([]byte, 64))
	rig.Must(t, conn.SetReadDeadline(time.Now().Add(rig.Timeout)))
	answer, _ := io.ReadAll(conn)
	return answer
}

// One job of two nodes that train over sockets is looked at from all sides while
// it runs.
func TestWhatARunningJobGivesAway(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	base := rig.FreePorts(t, 12)
	endpoint := fmt.Sprint("127.0.0.1:", base)
	ports := fmt.Sprintf("launch.port_range=%q", fmt.Sprintf("%d-%d", base, base+11))
	args := append(rig.Endless(ports, "backend.options.shm=false", "backend.options.tls=true"), "--nproc-per-node", "1", "--events", "json")
	nodes := []*rig.Proc{p.Node(0, endpoint, args...).Start(t), p.Node(1, endpoint, args...).Start(t)}
	p.WaitForSteps(t, nodes[0], 1, 3)

	t.Run("ports", func(t *testing.T) {
		found := listeners(t, p)
		if len(found) < 2 {
			t.Errorf("only %v listen", found)
		}
		for _, port := range found {
			if port < base || port > base+11 {
				t.Errorf("a process listens on %d, outside %d-%d", port, base, base+11)
			}
		}
	})
	t.Run("environments", func(t *testing.T) { looksForTheSecret(t, p) })
	t.Run("descriptors", func(t *testing.T) { looksAtPlugins(t, p) })

	rig.Signal(t, p.Worker(t, 1).PID, syscall.SIGKILL) // so that there is crash text
	for _, n := range nodes {
		r := n.Wait(t).Expect(t, 5)
		if strings.Contains(r.Stdout+r.Stderr, rig.JobSecret) {
			t.Error("the output tells the secret")
		}
	}
	searchFiles(t, p, rig.JobSecret)
}

// listeners are the TCP ports on which processes of the place listen.
func listeners(t *testing.T, p *rig.Place) (ports []int) {
	t.Helper()
	inodes := map[string]bool{}
	for _, q := range p.Processes() {
		for _, to := range descriptors(q.PID) {
			if inode, is := strings.CutPrefix(to, "socket:["); is {
				inodes[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(table)
		rig.Must(t, err)
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" || !inodes[f[9]] {
				continue
			}
			_, hex, _ := strings.Cut(f[1], ":")
			port, err := strconv.ParseInt(hex, 16, 32)
			rig.Must(t, err)
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
func looksForTheSecret(t *testing.T, p *rig.Place) {
	if !secret.Scrubs {
		t.Skip("built for systems where no file shows the environment of a process")
	}
	all := p.Processes()
	plugins := 0
	for _, q := range all {
		if q.Plugin() != "" {
			plugins++
		}
		if strings.Contains(strings.Join(append(q.Env, q.Args...), "\n"), rig.JobSecret) {
			t.Errorf("process %d (%v) shows the secret", q.PID, q.Args[:2])
		}
	}
	if len(all) < 8 || plugins < 4 {
		t.Errorf("only %d processes, %d plugins", len(all), plugins)
	}
}

// looksAtPlugins asserts that a plugin shares no pipe with the launchers, as the
// event pipe of its rank would be, and has no open file of the run.
func looksAtPlugins(t *testing.T, p *rig.Place) {
	all := p.Processes()
	var launchers []string
	for _, q := range all {
		if len(q.Args) > 1 && q.Args[1] == "run" {
			for n, to := range descriptors(q.PID) {
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
		if q.Plugin() == "" {
			continue
		}
		for n, to := range descriptors(q.PID) {
			if slices.Contains(launchers, to) || strings.HasPrefix(to, filepath.Join(p.Dir, "runs")) || strings.HasPrefix(to, filepath.Join(p.Dir, "elsewhere")) {
				t.Errorf("the %s plugin has descriptor %d open: %s", q.Plugin(), n, to)
			}
		}
	}
}

// searchFiles asserts that no file of the place holds a text, but the executable,
// which is hard linked.
func searchFiles(t *testing.T, p *rig.Place, text string) {
	t.Helper()
	files := 0
	rig.Must(t, filepath.WalkDir(p.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || path == p.Exe {
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

// A port range without a free port is reported on the node that needs one.
func TestPortRangeIsUsedUp(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	port := rig.FreePorts(t, 2) // one for the launchers to meet, and no other
	endpoint := fmt.Sprint("127.0.0.1:", port)
	busy, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port+1))
	rig.Must(t, err)
	defer busy.Close()
	text := fmt.Sprintf("%d-%d", port, port+1)
	flags := []string{"--nproc-per-node", "1", "--set", fmt.Sprintf("launch.port_range=%q", text)}
	other := p.Node(1, endpoint, flags...).Start(t)
	first := p.Node(0, endpoint, flags...).Start(t).Wait(t)
	if first.Code == 0 {
		t.Errorf("it went on:\n%s", first.Stderr)
	}
	first.Prints(t, "launch.port_range = "+text, "fix: widen the range")
	if r := other.Wait(t); r.Code == 0 {
		t.Errorf("node 1 went on:\n%s", r.Stderr)
	}
}
