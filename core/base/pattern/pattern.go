package pattern

import (
	"regexp"
	"sync"
)

// Lazy is a regular expression of package regexp. It is used as a variable of a package, and never copied.
type Lazy struct {
	Expr string

	once     sync.Once
	compiled *regexp.Regexp
}

// Get compiles the expression if this is the first call, and panics if it is not valid. It may be called from several
// goroutines.
func (l *Lazy) Get() *regexp.Regexp {
	l.once.Do(func() { l.compiled = regexp.MustCompile(l.Expr) })
	return l.compiled
}
