//go:build linux

package schedulers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m.Run)) }

// need skips a test where a program is missing.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed", p)
		}
	}
}

// script runs a script in a place, and fails the test if it fails.
func script(t *testing.T, p *rig.Place, env []string, name string, args ...string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	rig.Must(t, err)
	cmd := exec.CommandContext(t.Context(), "bash", append([]string{path}, args...)...)
	cmd.Env = append(os.Environ(), "TRAINCTL="+p.Exe, "HOME="+p.Dir, "TMPDIR="+p.Tmp, fmt.Sprint("PORT=", rig.FreePorts(t, 3)))
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

func TestSlurm(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster and waits for it to miss a node, a minute")
	}
	need(t, "slurmctld", "slurmd", "sbatch", "munged", "unshare")
	if os.Geteuid() != 0 {
		t.Skip("a Slurm cluster on this host needs root")
	}
	p := rig.NewPlace(t)
	cluster := t.TempDir()
	jobs := filepath.Join(cluster, "jobs")
	rig.Must(t, os.Mkdir(jobs, 0o755))
	rig.Must(t, os.WriteFile(filepath.Join(jobs, "job.toml"), []byte(rig.BaseConfig), 0o644))
	if out := script(t, p, nil, "slurm.sh", cluster); !strings.Contains(out, "all jobs ended as they should") {
		t.Error(out)
	}
}

// Ranks under mpirun and torchrun end as under trainctl run.
func TestLaunchers(t *testing.T) {
	for _, launcher := range []string{"mpirun.openmpi", "mpirun.mpich"} {
		t.Run(launcher, func(t *testing.T) {
			need(t, launcher)
			p := rig.NewPlace(t)
			p.Train(t).Expect(t, 0)
			script(t, p, nil, "mpi.sh", launcher, p.Dir)
			for n := 2; n <= 4; n++ { // the last one with the backend mpi
				rig.SameParams(t, p.Summary(t, 1), p.Summary(t, n))
			}
		})
	}
	t.Run("torchrun", func(t *testing.T) {
		torchrun := os.Getenv("TORCHRUN")
		if torchrun == "" {
			torchrun = "torchrun"
		}
		need(t, torchrun)
		p := rig.NewPlace(t)
		p.Train(t).Expect(t, 0)
		script(t, p, []string{"TORCHRUN=" + torchrun}, "torchrun.sh", p.Dir)
		rig.SameParams(t, p.Summary(t, 1), p.Summary(t, 2))
	})
}

// command is a line of docs/clusters.md that is marked as coming from a file here.
var command = regexp.MustCompile("(?s)<!-- from ([a-z0-9/._]+) -->\n```\n(.*?)```")

// table is a part of a configuration in the guide.
var table = regexp.MustCompile("(?s)\n```toml\n.*?\n```\n")

// Each command of the guide is a line of a test or of a text that submit writes.
func TestTheGuideQuotesTests(t *testing.T) {
	guide, err := os.ReadFile("../../docs/clusters.md")
	rig.Must(t, err)
	guide = table.ReplaceAll(guide, []byte("\n"))
	found := command.FindAllStringSubmatch(string(guide), -1)
	if n := strings.Count(string(guide), "\n```")/2 - len(found); len(found) == 0 || n != 0 {
		t.Errorf("%d blocks of commands come from tests, %d from nowhere", len(found), n)
	}
	for _, m := range found {
		b, err := os.ReadFile(filepath.Join("../..", m[1]))
		rig.Must(t, err)
		for line := range strings.Lines(m[2]) {
			if line = strings.TrimSpace(line); line != "" && !strings.Contains(string(b), line) {
				t.Errorf("%s does not contain %q", m[1], line)
			}
		}
	}
}
