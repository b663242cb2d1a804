package hostnet

import (
	"fmt"
	"sync"
	"time"
)

// Notes writes at most one line per minute and cause, so that a peer that is refused
// repeatedly cannot fill a log. It counts suppressed lines and reports the count with
// the next line. It is safe for concurrent use.
type Notes struct {
	// Write gets a whole line. It must not call back.
	Write func(line string)

	now   func() time.Time // nil: time.Now
	mu    sync.Mutex
	notes map[string]*note
}

type note struct {
	told time.Time
	more int // left out since
}

const noteEvery = time.Minute

// Say writes a line for a cause. The caller uses a small set of constant causes, never
// text from a peer.
func (n *Notes) Say(cause, format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.Write == nil {
		return
	}
	now := time.Now()
	if n.now != nil {
		now = n.now()
	}
	if n.notes == nil {
		n.notes = map[string]*note{}
	}
	last := n.notes[cause]
	if last == nil {
		last = &note{}
		n.notes[cause] = last
	} else if now.Sub(last.told) < noteEvery {
		last.more++
		return
	}
	line := fmt.Sprintf(format, args...)
	if last.more > 0 {
		line += fmt.Sprintf(" (and %d more since %s)", last.more, last.told.Format(time.TimeOnly))
	}
	*last = note{told: now}
	n.Write(line)
}
