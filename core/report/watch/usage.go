package watch

import (
	"time"

	"github.com/trainctl/trainctl/core/report/rundir"
)

// Usage measures how many cores the processes of ranks on this host use, plugins not included.
// Its zero value is ready to use.
type Usage struct {
	at   time.Time
	used map[rundir.Process]time.Duration
}

// Place is the process of a rank.
type Place struct {
	Host string
	rundir.Process
}

// Measure returns the cores used since the last call, by rank; nothing in the first call. Ranks
// that are threads of one process all have the usage of that process.
func (u *Usage) Measure(ranks map[int]Place, now time.Time) map[int]float64 {
	used, out := map[rundir.Process]time.Duration{}, map[int]float64{}
	for rank, p := range ranks {
		if p.Host != rundir.Hostname() {
			continue
		}
		cpu, ok := p.CPU()
		if !ok {
			continue
		}
		used[p.Process] = cpu
		if before, ok := u.used[p.Process]; ok && now.After(u.at) {
			out[rank] = (cpu - before).Seconds() / now.Sub(u.at).Seconds()
		}
	}
	u.used, u.at = used, now
	return out
}
