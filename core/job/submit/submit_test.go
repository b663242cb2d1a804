package submit

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
)

func written(t *testing.T, target string, j Job) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, target, j); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func job() Job {
	return Job{Name: "job", Program: "/opt/my tools/trainctl", Config: "job.toml", Args: []string{"--set", `model.name="mlp"`}, MinNodes: 2, MaxNodes: 2, Nproc: 4, Grace: 90 * time.Second, Mpirun: "mpirun"}
}

// Scripts are valid for the shells that run them, whatever the arguments contain.
func TestScriptsAreValid(t *testing.T) {
	elastic := job()
	elastic.MaxNodes = 8
	elastic.Name = "Bob's 50% run"
	elastic.Slurm = Slurm{Time: 90 * time.Minute, Partition: "gpu", Account: "mine", Constraint: "a100|h100", More: []string{"--qos=high", "--array=0-3"}}
	elastic.CPUs, elastic.GPUs = 16, 8
	for shell, text := range map[string]string{"bash": written(t, "slurm", job()) + written(t, "slurm", elastic), "sh": written(t, "mpi", job())} {
		cmd := exec.Command(shell, "-n")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s in\n%s", shell, err, out, text)
		}
		if !strings.Contains(text, `'/opt/my tools/trainctl'`) || !strings.Contains(text, `--set 'model.name="mlp"'`) {
			t.Errorf("%s: arguments are not quoted:\n%s", shell, text)
		}
	}
	text := written(t, "slurm", elastic)
	for _, want := range []string{
		"#SBATCH --nodes=2-8\n", "#SBATCH --time=90:00\n", "#SBATCH --signal=USR1@90\n", "#SBATCH --partition=gpu\n", "#SBATCH --account=mine\n", "#SBATCH '--constraint=a100|h100'\n", "#SBATCH --qos=high\n", "#SBATCH --array=0-3\n",
		`#SBATCH --job-name='Bob'\''s 50% run'` + "\n", `#SBATCH --output='Bob'\''s 50%% run-%j.out'` + "\n", `--set 'run.name="Bob'\''s 50% run-'"$SLURM_ARRAY_TASK_ID"'"'`,
		"#SBATCH --cpus-per-task=16\n", "#SBATCH --gpus-per-node=8\n", "#SBATCH --no-kill\n", "--nnodes 2:8 ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the script lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "#SBATCH --ntasks") {
		t.Errorf("with a number of tasks in the header, Slurm takes the fewest nodes of the range:\n%s", text)
	}
}

// The batch script requeues a job that was told to stop or lost a rank, but none that ends because it was cancelled.
func TestWhatIsRequeued(t *testing.T) {
	bin := t.TempDir()
	j := job()
	j.Program = filepath.Join(bin, "trainctl")
	for name, text := range map[string]string{
		"trainctl": "echo secret", "srun": `exit "$CODE"`,
		"scontrol": `case "$1" in show) if [ "$2" = job ]; then echo "   JobState=$STATE Reason=None"; else echo n1; fi;; requeue) echo requeued;; esac`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		code, state, restarts string
		requeued              bool
	}{
		{"75", "RUNNING", "50", true}, {"75", "SIGNALING", "0", true}, {"75", "COMPLETING", "0", false}, {"75", "CANCELLED", "0", false},
		{"5", "RUNNING", "9", true}, {"5", "RUNNING", "10", false}, {"137", "RUNNING", "0", true}, {"137", "COMPLETING", "0", false},
		{"0", "RUNNING", "0", false}, {"2", "RUNNING", "0", false},
	} {
		cmd := exec.Command("bash")
		cmd.Stdin = strings.NewReader(written(t, "slurm", j))
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n1", "SLURM_JOB_NUM_NODES=1",
			"CODE="+test.code, "STATE="+test.state, "SLURM_RESTART_COUNT="+test.restarts)
		out, err := cmd.CombinedOutput()
		if got := strings.Contains(string(out), "requeued"); got != test.requeued {
			t.Errorf("%+v: requeued is %v: %s", test, got, out)
		}
		if got := cmd.ProcessState.ExitCode(); fmt.Sprint(got) != test.code {
			t.Errorf("%+v: exit code %d, %v: %s", test, got, err, out)
		}
	}
}

// An elastic PyTorchJob has only workers, within its range.
func TestElasticRange(t *testing.T) {
	j := job()
	j.MaxNodes = 8
	text := written(t, "pytorchjob", j)
	for _, want := range []string{"    minReplicas: 2\n    maxReplicas: 8\n", "    Worker:\n      replicas: 8\n", `- "2:8"`, `- "job-worker-0:29400"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the object lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "Master:") {
		t.Error("it has a master")
	}
}

// Pods refer only to variables that they have: the operator of a PyTorchJob sets PET_NODE_RANK where the job has
// a master, and Kubernetes JOB_COMPLETION_INDEX in Indexed Jobs. It passes on other names as they are written.
func TestPodsKnowTheirIndex(t *testing.T) {
	elastic := job()
	elastic.MaxNodes = 8
	for _, test := range []struct {
		target, want string
		j            Job
	}{
		{"pytorchjob", "$(PET_NODE_RANK)", job()},
		{"pytorchjob", "$(NODE_RANK)", elastic},
		{"jobset", "$(JOB_COMPLETION_INDEX)", elastic},
		{"trainjob", "$(JOB_COMPLETION_INDEX)", job()},
	} {
		text := written(t, test.target, test.j)
		if refers, pods := strings.Count(text, "$("), strings.Count(text, "containers:"); refers != pods || strings.Count(text, `- "`+test.want+`"`) != pods {
			t.Errorf("%s: %d pods, %d references to variables, want to %s:\n%s", test.target, pods, refers, test.want, text)
		}
		field := `fieldPath: "metadata.labels['training.kubeflow.org/replica-index']"`
		if own := strings.Contains(text, "- name: NODE_RANK\n"); own != (test.want == "$(NODE_RANK)") || own != strings.Contains(text, field) {
			t.Errorf("%s: the pod's index is not defined as it should be:\n%s", test.target, text)
		}
	}
}

// With etcd launchers need no node 0; its address is the configuration's.
func TestEtcdHasItsOwnAddress(t *testing.T) {
	j := job()
	j.MaxNodes, j.Etcd = 8, true
	for target := range Targets {
		if target == "mpi" {
			continue
		}
		if text := written(t, target, j); strings.Contains(text, "rdzv-endpoint") || !strings.Contains(text, "2:8") {
			t.Errorf("%s: launchers look for node 0, or have no range:\n%s", target, text)
		}
	}
}

// Launchers meet at a port that the site allows.
func TestPortsOfTheSite(t *testing.T) {
	for target, want := range map[string]string{"slurm": ":$((31000 + SLURM_JOB_ID % 11))\"", "jobset": ":31000\""} {
		j := job()
		j.Ports = hostnet.Ports{First: 31000, Last: 31010}
		if text := written(t, target, j); !strings.Contains(text, want) {
			t.Errorf("%s lacks %q:\n%s", target, want, text)
		}
	}
}

func TestWhatCannotBeSubmitted(t *testing.T) {
	for want, change := range map[string]func(*Job) string{
		"how many a node has":                    func(j *Job) string { j.Nproc = 0; return "mpi" },
		"the processes of an MPI job cannot":     func(j *Job) string { j.MaxNodes = 3; return "mpi" },
		`"My Job" cannot name a Kubernetes`:      func(j *Job) string { j.Name = "My Job"; return "jobset" },
		"as soon as it starts":                   func(j *Job) string { j.Time, j.Grace = time.Minute, time.Minute; return "slurm" },
		`"qos=high" is not an option`:            func(j *Job) string { j.More = []string{"qos=high"}; return "slurm" },
		`"job-" cannot name a Kubernetes object`: func(j *Job) string { j.Name = "job-"; return "trainjob" },
	} {
		j := job()
		target := change(&j)
		if err := Write(new(bytes.Buffer), target, j); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
