package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/config"
)

// Machine is what trials have to share.
type Machine struct {
	Cores int
	GPUs  []string // UUIDs, by ordinal, or names of MIG slices: CUDA_VISIBLE_DEVICES selects by them
}

// sliceName begins the names of MIG slices.
const sliceName = "MIG-"

// GPUs are what trials may use: the GPUs with these UUIDs, or, where CUDA_VISIBLE_DEVICES lists MIG slices, those. CUDA
// shows a process only the first slice of its list, so the slices cannot be found by asking it.
func GPUs(uuids []string, visible string) []string {
	var listed []string
	for name := range strings.SplitSeq(visible, ",") {
		if name = strings.TrimSpace(name); !strings.HasPrefix(name, sliceName) || slices.Contains(listed, name) {
			break // as CUDA, which ignores what follows
		}
		listed = append(listed, name)
	}
	if len(uuids) == 0 || len(listed) == 0 {
		return uuids
	}
	return listed
}

// sliced reports whether the GPUs are MIG slices.
func (m *Machine) sliced() bool { return len(m.GPUs) > 0 && strings.HasPrefix(m.GPUs[0], sliceName) }

// need is what a trial takes.
type need struct {
	cores, gpus int
	threads     int  // of a rank, to be set; 0: those of the configuration
	shares      bool // its GPUs may be those of other trials
}

// need is what a trial takes if so many run at once; 0: as many as there is room for. Then "auto" is all of the
// machine, as without a sweep, and otherwise the trial's part of it.
func (m *Machine) need(c *config.Config, parallel int) need {
	gpus := len(m.GPUs)
	if c.Run.Device == "cpu" {
		gpus = 0
	}
	most := gpus // of a trial
	if m.sliced() {
		most = min(1, gpus)
	}
	ranks := c.Launch.Nproc(max(most/max(1, parallel), min(1, gpus)), m.Cores)
	n := need{gpus: ranks, shares: c.Run.AllowSharedDevice && parallel > 0}
	switch {
	case gpus == 0 && c.Run.Device != "cuda":
		n.gpus = 0
	case c.Run.AllowSharedDevice:
		n.gpus = max(1, min(ranks, most))
	}
	parts := max(1, parallel) // of the cores
	if n.gpus > 0 && parallel == 0 {
		parts = max(1, gpus/n.gpus)
	}
	if c.Launch.ThreadsPerRank.IsAuto() && parts > 1 {
		n.threads = max(1, m.Cores/(parts*ranks))
		n.cores = ranks * n.threads
		return n
	}
	n.cores = ranks * c.Launch.Threads(ranks, m.Cores)
	return n
}

// fits refuses a trial that this machine has too few GPUs for, by itself or beside the others.
func (m *Machine) fits(l *usererr.List, f *File, t *Trial) {
	n, have := m.need(t.config, f.Parallel), len(m.GPUs)
	switch {
	case m.sliced() && n.gpus > 1:
		l.Addf(t.place("launch.nproc_per_node"), `set launch.nproc_per_node to 1, or run.allow_shared_device to true, or list whole GPUs in CUDA_VISIBLE_DEVICES`,
			"a trial of %d ranks needs as many GPUs, and CUDA shows the ranks of a trial only one MIG slice", n.gpus)
	case n.gpus > 0 && have == 0:
		l.Addf(t.place("run.device"), `set it to "cpu", or run trainctl doctor to see why no GPU is found`, "run.device is \"cuda\", and this machine has no GPU")
	case n.gpus > have:
		l.Addf(t.place("launch.nproc_per_node"), fmt.Sprintf(`set launch.nproc_per_node to %d or less, or run.allow_shared_device to true, or run.device to "cpu"`, have),
			"a trial of %d ranks needs a GPU for each, and this machine has %d", n.gpus, have)
	case !n.shares && f.Parallel*n.gpus > have:
		l.Addf("parallel", fmt.Sprintf("set it to %d or less, or run.allow_shared_device to true", have/n.gpus),
			"%d trials at once need %d GPUs, and this machine has %d", f.Parallel, f.Parallel*n.gpus, have)
	}
}

// place is the path in the sweep's file that gives a key of the configuration.
func (t *Trial) place(key string) string {
	if i := slices.IndexFunc(t.Settings, func(s Setting) bool { return s.Key == key }); i >= 0 {
		return t.Settings[i].value
	}
	return "config"
}

// pool is what running trials have left of a machine.
type pool struct {
	*Machine
	cores int
	users []int // trials on each GPU
}

func newPool(m *Machine) pool {
	return pool{Machine: m, cores: m.Cores, users: make([]int, len(m.GPUs))}
}

// room reports whether there is room for one more trial. On GPUs the number of cores decides nothing.
func (p *pool) room(n need) bool {
	if n.shares {
		return true
	}
	if n.gpus == 0 {
		return n.cores <= p.cores
	}
	free := 0
	for _, users := range p.users {
		if users == 0 {
			free++
		}
	}
	return n.gpus <= free
}

// take gives a trial its cores, and the GPUs that the fewest trials use, by ordinal.
func (p *pool) take(n need) (gpus []int) {
	p.cores -= n.cores
	for i := range p.users {
		gpus = append(gpus, i)
	}
	slices.SortStableFunc(gpus, func(a, b int) int { return cmp.Compare(p.users[a], p.users[b]) })
	gpus = gpus[:n.gpus]
	slices.Sort(gpus)
	for _, g := range gpus {
		p.users[g]++
	}
	return gpus
}

// give takes back what take gave.
func (p *pool) give(n need, gpus []int) {
	p.cores += n.cores
	for _, g := range gpus {
		p.users[g]--
	}
}

// environment makes a trial see its GPUs alone. One that has all of them sees what the sweep sees.
func (m *Machine) environment(gpus []int) []string {
	if len(gpus) == 0 || len(gpus) == len(m.GPUs) {
		return nil
	}
	uuids := make([]string, len(gpus))
	for i, g := range gpus {
		uuids[i] = m.GPUs[g]
	}
	return []string{"CUDA_VISIBLE_DEVICES=" + strings.Join(uuids, ",")}
}

// onGPUs names the GPUs of a trial by their ordinals, if there are several to choose from.
func (m *Machine) onGPUs(gpus []int) string {
	if len(gpus) == 0 || len(m.GPUs) == 1 {
		return ""
	}
	return " on GPU " + strings.Trim(strings.ReplaceAll(fmt.Sprint(gpus), " ", ", "), "[]")
}
