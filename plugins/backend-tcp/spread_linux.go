//go:build !portable

package tcp

import "github.com/trainctl/trainctl/core/base/cores"

// Plugins that spin while they wait keep every core equally busy, so the system sees
// no imbalance and may leave two of them on one core for the whole job. The plugins
// detect that themselves: each writes the number of its core, plus one, to its control page.

const (
	// spreadSize is the smallest buffer for which plugins compare their cores.
	spreadSize = 256 << 10
	// spreadRest is the number of such collectives for which a plugin stays on the core that it
	// moved to: with more plugins than cores, moving again and again gains nothing.
	spreadRest = 16
)

// spread moves this plugin to a core without a plugin if it shares its own with that
// of a lower rank. All have written their cores.
func (l *local) spread() {
	if l.rest > 0 {
		l.rest--
		return
	}
	if crowded := l.cores(); crowded {
		cores.Leave(cores.Thread(), int(l.pages[l.b.group.Rank].cpu().Load())-1, l.taken)
		l.rest = spreadRest
	}
}

// cores finds the cores with a plugin, and reports whether this plugin is not the first
// on its core.
func (l *local) cores() (crowded bool) {
	l.taken = l.taken[:0]
	me := l.b.group.Rank
	mine := l.pages[me].cpu().Load()
	for r, p := range l.pages {
		if p == nil || p.cpu().Load() == 0 {
			continue
		}
		at := p.cpu().Load()
		l.taken = append(l.taken, int(at)-1)
		crowded = crowded || r < me && at == mine
	}
	return crowded
}
