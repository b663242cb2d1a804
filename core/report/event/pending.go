package event

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// mergeFor is how long a rank's message waits for the same message from other ranks.
const mergeFor = 100 * time.Millisecond

// pending is a message that waits for the same message from other ranks, to be shown
// as one notice with their numbers: a NaN loss, for example, occurs on all ranks at once.
type pending struct {
	notice
	ranks []int // that sent it, in order of arrival
	timer *time.Timer
}

// hold delays a notice until all ranks have sent it, or mergeFor has passed.
func (p *Progress) hold(n notice, rank int) {
	i := slices.IndexFunc(p.held, func(f *pending) bool { return f.text == n.text })
	if i < 0 {
		i = len(p.held)
		f := &pending{notice: n}
		f.timer = time.AfterFunc(mergeFor, func() { p.expire(f) })
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

// expire shows the notices that have waited long enough, and those before them.
func (p *Progress) expire(f *pending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(p.held, f) {
		p.flush()
	}
}

// flush shows all waiting notices.
func (p *Progress) flush() {
	for _, f := range p.held {
		f.timer.Stop()
		p.notice(notice{f.who(p.state.ranks) + f.text, f.color})
	}
	p.held = nil
}

// who lists the ranks, in the format of trainctl logs; "" in a job of one rank.
func (f *pending) who(world int) string {
	slices.Sort(f.ranks)
	switch {
	case world == 1:
		return ""
	case len(f.ranks) == 1:
		return fmt.Sprintf("[rank %d] ", f.ranks[0])
	}
	return fmt.Sprintf("[ranks %s] ", strings.ReplaceAll(strings.Trim(fmt.Sprint(f.ranks), "[]"), " ", ","))
}
