// Package manifests holds the objects that trainctl submit kubernetes writes against the Go
// types that the projects publish. It is a module of its own, because only this test needs
// them.
package manifests

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	pytorch "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	core "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"
)

const config = `
[run]
name = "job"
[dataset]
plugin = "synthetic"
[train]
epochs = 1
per_rank_batch = 8
[model]
name = "mlp"
`

var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "manifests-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "trainctl")
	build := exec.Command("go", "build", "-o", program, "./cmd/trainctl")
	build.Dir = "../../../.."
	if out, err := build.CombinedOutput(); err != nil {
		panic(string(out))
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// objects returns what trainctl writes, decoded strictly, by kind.
func objects(t *testing.T, args ...string) map[string]any {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job.toml")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, problems bytes.Buffer
	cmd := exec.Command(program, append([]string{"submit", "kubernetes", path, "--nproc-per-node", "2", "--claim", "data", "--gpus", "8", "--cpus", "64"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, problems.String())
	}
	found := map[string]any{}
	for _, text := range strings.Split(out.String(), "\n---\n") {
		var head struct{ Kind, APIVersion string }
		if err := yaml.Unmarshal([]byte(text), &head); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		into := map[string]any{
			"v1 Secret": &core.Secret{}, "v1 ConfigMap": &core.ConfigMap{}, "jobset.x-k8s.io/v1alpha2 JobSet": &jobset.JobSet{},
			"trainer.kubeflow.org/v1alpha1 TrainingRuntime": &trainer.TrainingRuntime{}, "trainer.kubeflow.org/v1alpha1 TrainJob": &trainer.TrainJob{},
			"kubeflow.org/v1 PyTorchJob": &pytorch.PyTorchJob{},
		}[head.APIVersion+" "+head.Kind]
		if into == nil {
			t.Fatalf("no type for %+v", head)
		}
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatalf("%s: %v\n%s", head.Kind, err, text)
		}
		found[head.Kind] = into
	}
	if s, ok := found["Secret"].(*core.Secret); !ok || len(s.StringData["secret"]) < 64 {
		t.Errorf("the secret is %+v", found["Secret"])
	}
	if c, ok := found["ConfigMap"].(*core.ConfigMap); !ok || c.Data["job.toml"] != config {
		t.Errorf("the configuration is %+v", found["ConfigMap"])
	}
	return found
}

// checkPod checks what every pod has.
func checkPod(t *testing.T, s core.PodSpec, container, endpoint string) {
	t.Helper()
	c := s.Containers[0]
	if c.Name != container || c.ReadinessProbe.HTTPGet.Path != "/ready" || c.ReadinessProbe.HTTPGet.Port.StrVal != "metrics" || c.Lifecycle.PreStop.Sleep == nil ||
		c.Env[0].ValueFrom.SecretKeyRef.Name != "job" || *s.TerminationGracePeriodSeconds != 120 {
		t.Errorf("the container is %+v", c)
	}
	if args := strings.Join(c.Args, " "); !strings.HasPrefix(args, "run /etc/trainctl/job.toml --nproc-per-node 2 --resume auto ") || !strings.HasSuffix(args, " --rdzv-endpoint "+endpoint) {
		t.Errorf("the arguments are %q", args)
	}
}

func TestJobSet(t *testing.T) {
	s := objects(t, "--nnodes", "4")["JobSet"].(*jobset.JobSet)
	job := s.Spec.ReplicatedJobs[0].Template.Spec
	if *job.Completions != 4 || *job.Parallelism != 4 || s.Spec.FailurePolicy.MaxRestarts != 3 || !*s.Spec.Network.PublishNotReadyAddresses {
		t.Errorf("the job set is %+v", s.Spec)
	}
	checkPod(t, job.Template.Spec, "node", "job-node-0-0.job:29400")
}

func TestTrainJob(t *testing.T) {
	all := objects(t, "--kind", "trainjob", "--nnodes", "4")
	job, runtime := all["TrainJob"].(*trainer.TrainJob), all["TrainingRuntime"].(*trainer.TrainingRuntime)
	if *job.Spec.Trainer.NumNodes != 4 || job.Spec.RuntimeRef.Name != runtime.Name || *job.Spec.RuntimeRef.Kind != "TrainingRuntime" || *runtime.Spec.MLPolicy.NumNodes != 4 {
		t.Errorf("the job is %+v", job.Spec)
	}
	r := runtime.Spec.Template.Spec.ReplicatedJobs[0]
	if r.Template.Labels["trainer.kubeflow.org/trainjob-ancestor-step"] != "trainer" {
		t.Errorf("the labels are %v", r.Template.Labels)
	}
	checkPod(t, r.Template.Spec.Template.Spec, "node", "job-node-0-0.job:29400")
}

func TestPyTorchJob(t *testing.T) {
	s := objects(t, "--kind", "pytorchjob", "--nnodes", "4")["PyTorchJob"].(*pytorch.PyTorchJob).Spec
	master, worker := s.PyTorchReplicaSpecs[pytorch.PyTorchJobReplicaTypeMaster], s.PyTorchReplicaSpecs[pytorch.PyTorchJobReplicaTypeWorker]
	if *master.Replicas != 1 || *worker.Replicas != 3 || s.ElasticPolicy != nil {
		t.Errorf("the job is %+v", s)
	}
	checkPod(t, master.Template.Spec, "pytorch", "job-master-0:29400")
	checkPod(t, worker.Template.Spec, "pytorch", "job-master-0:29400")
}
