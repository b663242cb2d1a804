package output

import "time"

// The rate and burst of lines that a plugin may print: an unlimited log would fill
// the disk and slow down training.
const (
	linesPerSecond = 200
	lineBurst      = 2000
)

// rate is a token bucket for lines.
type rate struct {
	tokens  float64
	last    time.Time
	told    time.Time
	dropped int
}

// admit takes a token for a line. dropped is how many lines were dropped since the
// last report, at most once a second.
func (r *rate) admit(now time.Time) (pass bool, dropped int) {
	if r.last.IsZero() {
		r.tokens = lineBurst
	}
	r.tokens = min(lineBurst, r.tokens+now.Sub(r.last).Seconds()*linesPerSecond)
	r.last = now
	if pass = r.tokens >= 1; pass {
		r.tokens--
	} else {
		r.dropped++
	}
	if r.dropped > 0 && now.Sub(r.told) >= time.Second {
		dropped, r.dropped, r.told = r.dropped, 0, now
	}
	return pass, dropped
}
