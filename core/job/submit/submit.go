package submit

import (
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/template"
	"time"
	"unicode"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/base/usererr"
)

// Job is what is submitted.
type Job struct {
	Name     string   // of the run
	Program  string   // path of trainctl, where the job runs
	Config   string   // path of the configuration, where the job runs; in Kubernetes its text is mounted there
	Args     []string // more arguments of trainctl
	MinNodes int
	MaxNodes int // more than MinNodes: elastic
	Nproc    int // ranks on a node; 0: as the configuration says

	Ports hostnet.Ports // launch.port_range
	Etcd  bool          // launchers meet in etcd, whose address is in the configuration or in Args

	CPUs, GPUs int           // of a node; 0: the site's default
	Grace      time.Duration // between the signal and the end, in which the ranks save
	Slurm
	Kubernetes
	Mpirun string // the command: mpirun or mpiexec
}

// Slurm has what only Slurm needs.
type Slurm struct {
	Time                           time.Duration // time limit; 0: the partition's
	Partition, Account, Constraint string
	More                           []string // other options of sbatch, such as "--qos=high"
}

// Kubernetes has what only Kubernetes needs.
type Kubernetes struct {
	Image, Namespace string
	Claim            string // PersistentVolumeClaim that all pods mount at /data; "": none
	Text             string // of the configuration
	Secret           string // of the job
	Metrics          int    // port of /metrics and /ready
}

//go:embed templates
var files embed.FS

// Targets are the systems that Write knows, with the template of each.
var Targets = map[string]string{
	"slurm": "slurm.sh", "mpi": "mpi.sh", "jobset": "jobset.yaml", "trainjob": "trainjob.yaml", "pytorchjob": "pytorchjob.yaml",
}

// Write writes the job for one of Targets.
func Write(w io.Writer, target string, j Job) error {
	if err := j.problems(target).Err(); err != nil {
		return err
	}
	_, err := io.WriteString(w, execute(Targets[target], j))
	return err
}

// execute writes one of the templates, which are part of the program.
func execute(name string, data any) string {
	t := template.Must(template.New("").Funcs(template.FuncMap{
		"shell": usererr.Shell, "quote": quote, "seconds": seconds, "indent": indent,
	}).ParseFS(files, "templates/*"))
	var b strings.Builder
	if err := t.ExecuteTemplate(&b, name, data); err != nil {
		panic("submit: " + err.Error())
	}
	return b.String()
}

func (j Job) problems(target string) (l usererr.List) {
	if target == "mpi" && j.Nproc == 0 {
		l.Addf("launch.nproc_per_node", "give a number, such as --nproc-per-node 8", "mpirun starts the ranks itself, and has to know how many a node has")
	}
	if target == "mpi" && j.Elastic() {
		l.Addf("launch.nnodes", "give one number", "the processes of an MPI job cannot leave one by one")
	}
	if kubernetes := strings.HasSuffix(Targets[target], ".yaml"); kubernetes && !dnsLabel(j.Name) {
		l.Addf("run.name", "use small letters, digits and dashes, at most 40 characters, a letter first", "%q cannot name a Kubernetes object", j.Name)
	}
	if target == "slurm" && j.Time > 0 && j.Time <= j.Grace {
		l.Addf("time", "give more time, or a smaller --grace", "the signal to save comes %v before the end of a job of %v: it would save and go back into the queue as soon as it starts", j.Grace, j.Time)
	}
	for _, o := range j.More {
		if !strings.HasPrefix(o, "-") || strings.ContainsFunc(o, unicode.IsControl) {
			l.Addf("sbatch", "write it as sbatch takes it, such as --sbatch=--qos=high", "%q is not an option", o)
		}
	}
	return l
}

// dnsLabel leaves room for what the controllers append to a name (RFC 1035).
func dnsLabel(name string) bool {
	for i, c := range name {
		letter, other := c >= 'a' && c <= 'z', c >= '0' && c <= '9' || c == '-'
		if !letter && (!other || i == 0) {
			return false
		}
	}
	return name != "" && len(name) <= 40 && !strings.HasSuffix(name, "-")
}

// Elastic reports whether the number of nodes may change.
func (j Job) Elastic() bool { return j.MaxNodes > j.MinNodes }

// Nodes is what --nnodes gets.
func (j Job) Nodes() string { return nodes(j, ":") }

// NodeRange is the number of nodes as sbatch takes it.
func (j Job) NodeRange() string { return nodes(j, "-") }

func nodes(j Job, to string) string {
	if j.Elastic() {
		return fmt.Sprint(j.MinNodes, to, j.MaxNodes)
	}
	return strconv.Itoa(j.MinNodes)
}

// Options are the lines of a batch script that not every job has. sbatch takes quotes as a shell does.
func (j Job) Options() (all []string) {
	add := func(set bool, format string, value any) {
		if set {
			all = append(all, usererr.Shell(fmt.Sprintf(format, value)))
		}
	}
	add(j.CPUs > 0, "--cpus-per-task=%d", j.CPUs)
	add(j.GPUs > 0, "--gpus-per-node=%d", j.GPUs)
	add(j.Time > 0, "--time=%s", minutes(j.Time))
	add(j.Partition != "", "--partition=%s", j.Partition)
	add(j.Account != "", "--account=%s", j.Account)
	add(j.Constraint != "", "--constraint=%s", j.Constraint)
	if j.Elastic() {
		all = append(all, "--no-kill")
	}
	for _, o := range j.More {
		add(true, "%s", o)
	}
	return all
}

// Output is the pattern of the batch job's output. % begins a placeholder of Slurm.
func (j Job) Output() string { return strings.ReplaceAll(j.Name, "%", "%%") + "-%j.out" }

// TaskName is the beginning of the setting that names the run of an array's task, in TOML's quotes.
func (j Job) TaskName() string {
	return usererr.Shell("run.name=" + strings.TrimSuffix(quote(j.Name), `"`) + "-")
}

// Ranks is the number of ranks of all nodes.
func (j Job) Ranks() int { return j.MinNodes * j.Nproc }

// Words are the arguments of trainctl run in a pod, where there may be no shell. head is
// the host name of node 0, and rank says where the pod's index is.
func (j Job) Words(head, rank string) []string {
	words := append([]string{"run", j.Config}, j.Args...)
	words = append(words, "--resume", "auto", "--set", "launch.requeue=true", "--set", fmt.Sprintf(`metrics.prometheus="0.0.0.0:%d"`, j.Metrics))
	if j.MaxNodes > 1 {
		words = append(words, "--nnodes", j.Nodes())
	}
	if j.MaxNodes > 1 && !j.Etcd {
		words = append(words, "--node-rank", rank, "--rdzv-endpoint", fmt.Sprint(head, ":", j.Meeting()))
	}
	return words
}

// Meeting is a port at which launchers may meet if all ranks listen on these.
func Meeting(p hostnet.Ports) int {
	if p.Any() {
		return 29400
	}
	return p.First
}

// Meeting is the port at which the launchers of pods meet.
func (j Job) Meeting() int { return Meeting(j.Ports) }

// Spread are the ports at which the launchers of different Slurm jobs meet, because several jobs may
// have the same first node.
func (j Job) Spread() hostnet.Ports {
	if j.Ports.Any() {
		return hostnet.Ports{First: 20000, Last: 29999}
	}
	return j.Ports
}

// Width is how many ports these are.
func (j Job) Width() int { return j.Spread().Last - j.Spread().First + 1 }

// quote writes a string as JSON, which is also YAML.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // of a string
	return strings.TrimSuffix(b.String(), "\n")
}

// minutes writes a duration as sbatch takes it.
func minutes(d time.Duration) string {
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

func seconds(d time.Duration) int { return int(d.Seconds()) }

// indent indents all lines but the first.
func indent(n int, text string) string {
	return strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+strings.Repeat(" ", n))
}

// Workers is the number of PyTorchJob's workers; without elasticity node 0 is the master.
func (j Job) Workers() int {
	if j.Elastic() {
		return j.MaxNodes
	}
	return j.MaxNodes - 1
}

// Head is the host name of node 0 of a PyTorchJob.
func (j Job) Head() string {
	if j.Elastic() {
		return j.Name + "-worker-0"
	}
	return j.Name + "-master-0"
}

// pod is the specification of a pod. Its node rank is that of an environment variable, which the pod defines
// as one of its fields, index, if that is set.
func (j Job) pod(container, head, rank, index string) string {
	return execute("pod", struct {
		Job                          Job
		Container, Head, Rank, Index string
	}{j, container, head, "$(" + rank + ")", index})
}

// TorchPod is the specification of a PyTorchJob's pod. The training operator counts pods in PET_NODE_RANK only
// where one of them is the master; otherwise their label has the index.
func (j Job) TorchPod() string {
	if j.Elastic() {
		return j.pod("pytorch", j.Head(), "NODE_RANK", "metadata.labels['training.kubeflow.org/replica-index']")
	}
	return j.pod("pytorch", j.Head(), "PET_NODE_RANK", "")
}

// JobSet is the specification of a JobSet, or of the one in a training runtime.
func (j Job) JobSet(runtime bool) string {
	labels := ""
	if runtime {
		labels = "trainer.kubeflow.org/trainjob-ancestor-step: trainer"
	}
	return execute("nodes", struct {
		Job           Job
		Pod, Labels   string
		FailurePolicy bool
	}{j, j.pod("node", j.Name+"-node-0-0."+j.Name, "JOB_COMPLETION_INDEX", ""), labels, !runtime})
}
