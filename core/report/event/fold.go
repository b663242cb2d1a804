package event

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// foldFor is how long a rank's trouble waits for others to have the same.
const foldFor = 100 * time.Millisecond

// fold is trouble that several ranks tell in the same words, as one notice that
// names them: a loss that is not a number is one to all of them at once.
type fold struct {
	notice
	ranks []int // that said it, as they came
	timer *time.Timer
}

// hold keeps a notice back until the other ranks had time to say it, or all have.
func (p *Progress) hold(n notice, rank int) {
	i := slices.IndexFunc(p.held, func(f *fold) bool { return f.text == n.text })
	if i < 0 {
		i = len(p.held)
		f := &fold{notice: n}
		f.timer = time.AfterFunc(foldFor, func() { p.letGo(f) })
		p.held = append(p.held, f)
	}
	f := p.held[i]
	if !slices.Contains(f.ranks, rank) {
		f.ranks = append(f.ranks, rank)
	}
	if len(f.ranks) == p.state.ranks {
		p.flush()
	}
}

// letGo shows what waited long enough, and what came before it.
func (p *Progress) letGo(f *fold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(p.held, f) {
		p.flush()
	}
}

// flush shows all that waits.
func (p *Progress) flush() {
	for _, f := range p.held {
		f.timer.Stop()
		p.notice(notice{f.who(p.state.ranks) + f.text, f.color})
	}
	p.held = nil
}

// who names the ranks, as trainctl logs does; nothing where there is but one.
func (f *fold) who(world int) string {
	slices.Sort(f.ranks)
	switch {
	case world == 1:
		return ""
	case len(f.ranks) == 1:
		return fmt.Sprintf("[rank %d] ", f.ranks[0])
	}
	return fmt.Sprintf("[ranks %s] ", strings.ReplaceAll(strings.Trim(fmt.Sprint(f.ranks), "[]"), " ", ","))
}
