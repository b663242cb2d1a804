package observer

// queueBytes holds the events of about 15,000 steps.
const queueBytes = 4 << 20

// queue has the events that an observer has not got yet, in at most queueBytes.
type queue struct {
	lines []line
	size  int // bytes
}

type line struct {
	text []byte
	step bool
}

func (q *queue) empty() bool { return len(q.lines) == 0 }

// add appends an event and returns how many were dropped to make room.
func (q *queue) add(text []byte, step bool) (dropped int) {
	q.lines = append(q.lines, line{text, step})
	q.size += len(text)
	for q.size > queueBytes && len(q.lines) > 1 {
		n := len(q.lines)
		q.thin()
		dropped += n - len(q.lines)
	}
	return dropped
}

// thin drops every second step, so that curves keep their shape and all other events remain. If
// there are no steps, it drops the older half.
func (q *queue) thin() {
	kept, drop, steps := []line{}, true, false
	for _, l := range q.lines {
		steps = steps || l.step
		if !l.step || !drop {
			kept = append(kept, l)
		}
		drop = drop != l.step
	}
	if !steps {
		kept = kept[(len(kept)+1)/2:]
	}
	q.lines, q.size = kept, 0
	for _, l := range kept {
		q.size += len(l.text)
	}
}

// take removes up to n events, all if n is 0; nil if there are none.
func (q *queue) take(n int) (texts [][]byte) {
	if n == 0 || n > len(q.lines) {
		n = len(q.lines)
	}
	for _, l := range q.lines[:n] {
		texts = append(texts, l.text)
		q.size -= len(l.text)
	}
	q.lines = q.lines[n:]
	return texts
}
