package launch

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/job/etcd"
)

// Config is the table [launch].
type Config struct {
	// Ranks says whether the ranks of a host are processes, or threads: goroutines of one process,
	// which also runs their built-in plugins.
	Ranks string `toml:"ranks" words:"processes,threads"`

	// NprocPerNode is the number of ranks on this host. "auto" is one per GPU;
	// on a host without GPUs two, or one if it has a single core: enough to
	// train in parallel, few enough for a laptop.
	NprocPerNode Count `toml:"nproc_per_node"`

	// Nnodes is the number of hosts, "1" by default. Every host runs its own
	// launcher. A range such as "2:8" makes the job elastic: hosts come and go.
	Nnodes Count `toml:"nnodes"`

	// NodeRank is the index of this host, 0 to nnodes-1.
	NodeRank int `toml:"node_rank"`

	// RdzvBackend is where launchers meet: "builtin" (also "c10d" and "static", as torchrun
	// calls it) is node 0's launcher, which must stay; with "etcd", which requires a range of nodes, every node may leave, and
	// nodes take their NodeRank as they come.
	RdzvBackend string `toml:"rdzv_backend" words:"builtin,c10d,static,etcd"`

	// RdzvEndpoint is host:port where node 0's launcher meets the others;
	// needed for more than one node. For etcd it may be several, with commas
	// between them, or URLs.
	RdzvEndpoint string `toml:"rdzv_endpoint"`

	// RdzvCAFile, RdzvCertFile and RdzvKeyFile are PEM files for TLS connections to
	// etcd: the authority that signed its certificate, this client's certificate,
	// and its key.
	RdzvCAFile   string `toml:"rdzv_ca_file"`
	RdzvCertFile string `toml:"rdzv_cert_file"`
	RdzvKeyFile  string `toml:"rdzv_key_file"`

	// RdzvUser is the user of etcd. Its password is in TRAINCTL_RDZV_PASSWORD, or in
	// RdzvPasswordFile, whose mode must be 0600 or stricter.
	RdzvUser         string `toml:"rdzv_user"`
	RdzvPasswordFile string `toml:"rdzv_password_file"`

	// SecretFile holds the secret with which the processes of a job over several
	// hosts authenticate each other, unless TRAINCTL_JOB_SECRET is set. Its mode
	// must be 0600 or stricter.
	SecretFile string `toml:"secret_file"`

	// PortRange is "first-last", the ports on which the job listens for other
	// hosts: the rendezvous, the ranks' store and the backend. "" is any port.
	PortRange string `toml:"port_range" pattern:"^( *[0-9]+ *(- *[0-9]+ *)?)?$"`

	// Elastic lets the ranks go on when another one has died, with one less.
	Elastic bool `toml:"elastic"`

	// WaitForNodes is how long the ranks of a range of hosts wait, between two steps, when there
	// are fewer than its least number. Then they save, and the job ends with ExitPreempted.
	WaitForNodes Duration `toml:"wait_for_nodes"`

	// LostAfter is how long the ranks of an elastic job wait for one that is silent.
	LostAfter Duration `toml:"lost_after"`

	// MaxRestarts is how often the whole group is restarted after a failure.
	MaxRestarts int `toml:"max_restarts"`

	// ThreadsPerRank is GOMAXPROCS of a rank. "auto" is cores / nproc_per_node,
	// at least 1, counting the cores that a CPU quota allows (cgroup.Cores).
	ThreadsPerRank Count `toml:"threads_per_rank"`

	// Shares are the shares of the ranks in the samples of a step, for ranks of different speed.
	Shares Shares `toml:"shares"`

	// Isolation is where built-in plugins run: each in its own process, in that of its rank, or
	// "auto", see InRank.
	Isolation string `toml:"isolation" words:"auto,isolated,inproc"`

	// Grace is how long ranks may take to save and end after a signal to the launcher
	// before they are killed. "auto" is twice what the slowest save of the run
	// took so far, at least 5 s. After a failure they get at most a second of it.
	Grace Duration `toml:"grace"`

	// Requeue makes SIGUSR1, which a batch system sends shortly before a job's time
	// limit, save and end with ExitPreempted. Otherwise SIGUSR1 saves and continues.
	Requeue bool `toml:"requeue"`
}

// The values of Config.Isolation.
const (
	isolationAuto     = "auto"
	isolationIsolated = "isolated"
	isolationInproc   = "inproc"
)

// crowded is the number of ranks per core above which "auto" saves processes: starting them takes
// longer than anything else then.
const crowded = 4

// InRank reports whether the built-in plugins of a host's ranks run in the ranks' processes.
func (c Config) InRank(ranks, cores int) bool {
	return c.Isolation == isolationInproc || c.Isolation == isolationAuto && ranks > crowded*cores
}

// Isolated reports whether every plugin has a process of its own.
func (c Config) Isolated() bool { return c.Isolation == isolationIsolated }

// Default is one host, automatic numbers and grace, no restarts.
func Default() Config {
	return Config{Ranks: "processes", NprocPerNode: Auto, Nnodes: N(1), RdzvBackend: "builtin", ThreadsPerRank: Auto, Isolation: isolationAuto, Grace: AutoGrace, LostAfter: seconds(10), WaitForNodes: seconds(600)}
}

// Problems lists everything that is wrong with the table.
func (c Config) Problems() usererr.List {
	var l usererr.List
	if !slices.Contains([]string{"processes", "threads"}, c.Ranks) {
		l.Addf("ranks", `use "processes" or "threads"`, "%q is not a way to run ranks", c.Ranks)
	}
	c.NprocPerNode.check(&l, "nproc_per_node", `a number from 1 up, or "auto"`, true)
	c.ThreadsPerRank.check(&l, "threads_per_rank", `a number from 1 up, or "auto"`, true)
	c.Nnodes.check(&l, "nnodes", `a number from 1 up, or a range such as "2:8"`, false)
	for key, n := range map[string]Count{"nproc_per_node": c.NprocPerNode, "threads_per_rank": c.ThreadsPerRank} {
		if n.least > 0 {
			l.Addf(key, "give one number", "%q is a range", n.String())
		}
	}
	if c.MaxRestarts < 0 {
		l.Addf("max_restarts", "0 never restarts", "%d is negative", c.MaxRestarts)
	}
	switch c.Isolation {
	case isolationAuto, isolationIsolated, isolationInproc:
	default:
		l.Addf("isolation", `use "auto", "isolated" or "inproc"`, "unknown isolation %q", c.Isolation)
	}
	if c.Grace.raw != "" || c.Grace.d < 0 {
		l.Addf("grace", `write a duration such as "5s", or "auto"`, "%s is not a duration from 0 up", c.Grace)
	}
	c.Shares.check(&l)
	c.LostAfter.checkAboveZero(&l, "lost_after")
	c.WaitForNodes.checkAboveZero(&l, "wait_for_nodes")
	if c.Elastic && c.Nnodes.n > 1 && c.Nnodes.least == 0 {
		l.Addf("elastic", fmt.Sprintf(`write launch.nnodes = "1:%d", or remove it`, c.Nnodes.n), "the number of hosts is fixed to %d", c.Nnodes.n)
	}
	if c.AreThreads() && (c.IsElastic() || c.UsesEtcd()) {
		l.Addf("ranks", `set it to "processes"`, "ranks of one process cannot leave an elastic job one by one")
	}
	if _, err := hostnet.ParsePorts(c.PortRange); err != nil {
		l.Addf("port_range", `write the first and the last one, such as "29400-29500"`, "%v", err)
	}
	c.nodeProblems(&l)
	return l
}

// AreThreads reports whether the ranks of a host are goroutines of one process.
func (c Config) AreThreads() bool { return c.Ranks == "threads" }

// IsElastic reports whether the ranks of the job change: a range of hosts, or Elastic.
func (c Config) IsElastic() bool { return c.Elastic || c.Nnodes.least > 0 }

// Ports is PortRange, parsed; any port where Problems reports it as invalid.
func (c Config) Ports() hostnet.Ports {
	p, err := hostnet.ParsePorts(c.PortRange)
	if err != nil {
		return hostnet.Ports{}
	}
	return p
}

func (c Config) nodeProblems(l *usererr.List) {
	nodes := max(1, c.Nnodes.n)
	if c.UsesEtcd() {
		c.etcdProblems(l)
		return
	}
	if !slices.Contains([]string{"builtin", "c10d", "static"}, c.RdzvBackend) {
		l.Addf("rdzv_backend", `"builtin" or "etcd"`, "there is no rendezvous %q", c.RdzvBackend)
	}
	if c.NodeRank < 0 || c.NodeRank >= nodes {
		l.Addf("node_rank", fmt.Sprintf("0 to %d", nodes-1), "%d is outside %d nodes", c.NodeRank, nodes)
	}
	if nodes == 1 && c.Nnodes.least == 0 {
		return
	}
	_, port, err := net.SplitHostPort(c.RdzvEndpoint)
	if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 1 || n > 65535 {
		l.Addf("rdzv_endpoint", `write node 0's "host:port", such as "node0:29400" or "[fd00::1]:29400"`, "%q is not an address, and %d nodes need one to meet", c.RdzvEndpoint, nodes)
	} else if p := c.Ports(); !p.Holds(n) {
		l.Addf("rdzv_endpoint", "", "port %d, at which the launchers meet, is not in launch.port_range %v", n, p)
	}
}

// UsesEtcd reports whether launchers meet in etcd.
func (c Config) UsesEtcd() bool { return c.RdzvBackend == "etcd" }

func (c Config) etcdProblems(l *usererr.List) {
	if c.Nnodes.least == 0 {
		n := max(2, c.Nnodes.n)
		l.Addf("nnodes", fmt.Sprintf(`write a range such as "1:%d", or "%d:%d" to start with all`, n, n, n), `%s is not a range, and rdzv_backend = "etcd" is for nodes that may leave`, c.Nnodes.String())
	}
	for _, e := range c.Etcd().Endpoints {
		host := strings.TrimPrefix(strings.TrimPrefix(e, "https://"), "http://")
		if name, port, err := net.SplitHostPort(host); err != nil || name == "" || port == "" {
			l.Addf("rdzv_endpoint", `write etcd's "host:port", such as "etcd0:2379", or several with commas between them`, "%q is not an address of etcd", e)
		}
	}
	if (c.RdzvCertFile == "") != (c.RdzvKeyFile == "") {
		l.Addf("rdzv_cert_file", "give both rdzv_cert_file and rdzv_key_file", "a certificate needs its key")
	}
	if c.RdzvUser == "" && c.RdzvPasswordFile != "" {
		l.Addf("rdzv_user", "name the user of this password", "rdzv_password_file is set, and no user")
	}
}

// Etcd says how to reach etcd, without the password.
func (c Config) Etcd() etcd.Config {
	endpoints := strings.Split(c.RdzvEndpoint, ",")
	for i, e := range endpoints {
		endpoints[i] = strings.TrimSpace(e)
	}
	return etcd.Config{Endpoints: endpoints, CAFile: c.RdzvCAFile, CertFile: c.RdzvCertFile, KeyFile: c.RdzvKeyFile, User: c.RdzvUser}
}

// Nproc is the number of ranks on a host with that many GPUs and cores.
func (c Config) Nproc(gpus, cores int) int {
	switch {
	case !c.NprocPerNode.IsAuto():
		return c.NprocPerNode.n
	case gpus > 0:
		return gpus
	}
	return max(1, min(2, cores))
}

// Threads is GOMAXPROCS of each of nproc ranks on a host with that many cores.
func (c Config) Threads(nproc, cores int) int {
	if !c.ThreadsPerRank.IsAuto() {
		return c.ThreadsPerRank.n
	}
	return max(1, cores/max(1, nproc))
}

// Count is a number that may be left to trainctl, or for hosts a range: 4, "4", "2:8" or "auto" in
// TOML. Its zero value is "auto".
type Count struct {
	n     int    // of a range, the largest
	least int    // of a range; 0: it is none
	raw   string // what was written, when it is neither
}

// Auto leaves the number to trainctl.
var Auto = Count{}

// most is the largest Count: more ranks on a host, threads in a rank or hosts in a job are treated
// as a typo.
const most = 4096

// N is a fixed number.
func N(n int) Count {
	if n < 1 {
		return Count{raw: strconv.Itoa(n)}
	}
	return Count{n: n}
}

// IsAuto is false for a number, also for one that Problems reports as invalid.
func (c Count) IsAuto() bool { return c == Auto }

// Least is the smallest number of a range, 0 for one number.
func (c Count) Least() int { return c.least }

// Int is the number, of a range the largest, 0 for "auto" and for what Problems reports as invalid.
func (c Count) Int() int { return c.n }

func (c Count) String() string {
	switch {
	case c.raw != "":
		return c.raw
	case c.n == 0:
		return "auto"
	case c.least > 0:
		return fmt.Sprintf("%d:%d", c.least, c.n)
	}
	return strconv.Itoa(c.n)
}

// UnmarshalTOML takes an integer or a string. It never fails: Config.Problems
// reports bad values together with all others.
func (c *Count) UnmarshalTOML(v any) error {
	text := fmt.Sprint(v)
	n, err := strconv.Atoi(text)
	from, to, isRange := strings.Cut(text, ":")
	least, err1 := strconv.Atoi(from)
	most, err2 := strconv.Atoi(to)
	switch {
	case text == "auto":
		*c = Auto
	case isRange && err1 == nil && err2 == nil && least >= 1 && least <= most && most > 1:
		*c = Count{n: most, least: least}
	case err == nil:
		*c = N(n)
	default:
		*c = Count{raw: text}
	}
	return nil
}

// UnmarshalText is UnmarshalTOML for flags.
func (c *Count) UnmarshalText(b []byte) error { return c.UnmarshalTOML(string(b)) }

// MarshalText is String.
func (c Count) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// SchemaForms are the JSON Schemas of what UnmarshalTOML takes.
func (Count) SchemaForms() []map[string]any {
	return []map[string]any{{"type": "integer", "minimum": 1, "maximum": most}, {"enum": []string{"auto"}}, {"type": "string", "pattern": "^[0-9]+(:[0-9]+)?$"}}
}

func (c Count) check(l *usererr.List, key, help string, auto bool) {
	switch {
	case c.raw != "" || c.IsAuto() && !auto:
		l.Addf(key, help, "%q is not a number from 1 up", c.String())
	case c.n > most:
		l.Addf(key, fmt.Sprintf("at most %d", most), "%d is too large", c.n)
	}
}

// Duration is "5s" or "1m30s" in TOML.
type Duration struct {
	d    time.Duration
	auto bool
	raw  string // what was written, when it is none
}

func (d Duration) checkAboveZero(l *usererr.List, key string) {
	if d.raw != "" || d.d <= 0 || d.auto {
		l.Addf(key, `write a duration such as "10s"`, "%s is not a duration above 0", d)
	}
}

// AutoGrace is "auto" for Config.Grace; d is its minimum.
var AutoGrace = Duration{d: 5 * time.Second, auto: true}

// IsAuto is true for "auto".
func (d Duration) IsAuto() bool { return d.auto }

func seconds(n int) Duration { return Duration{d: time.Duration(n) * time.Second} }

// Std is the duration for package time.
func (d Duration) Std() time.Duration { return d.d }

func (d Duration) String() string {
	switch {
	case d.raw != "":
		return strconv.Quote(d.raw)
	case d.auto:
		return "auto"
	}
	return d.d.String()
}

// UnmarshalTOML takes a string. It never fails: Config.Problems reports what is
// not a duration.
func (d *Duration) UnmarshalTOML(v any) error {
	text := fmt.Sprint(v)
	if text == "auto" {
		*d = AutoGrace
		return nil
	}
	std, err := time.ParseDuration(text)
	if err != nil {
		*d = Duration{raw: text}
		return nil
	}
	*d = Duration{d: std}
	return nil
}

// SchemaForms are the JSON Schemas of what UnmarshalTOML takes.
func (Duration) SchemaForms() []map[string]any {
	return []map[string]any{{"enum": []string{"auto"}}, {"type": "string", "pattern": "^0$|^([0-9.]+(ns|us|µs|ms|s|m|h))+$"}}
}

// UnmarshalText is UnmarshalTOML for flags.
func (d *Duration) UnmarshalText(b []byte) error { return d.UnmarshalTOML(string(b)) }

// MarshalText is the duration as UnmarshalTOML takes it.
func (d Duration) MarshalText() ([]byte, error) {
	if d.raw != "" {
		return []byte(d.raw), nil
	}
	return []byte(d.String()), nil
}
