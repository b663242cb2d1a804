package gpu

import (
	"fmt"
	"strings"
)

// Activity is an operation or a wait, described in words when an error has to name it.
type Activity struct {
	Text  string
	N     int           // for Text's %d, if it has one
	Where func() string // details, computed when an error needs them; may be nil
}

// Doing is an activity described by a text.
func Doing(text string) Activity { return Activity{Text: text} }

func (a Activity) String() string {
	s := a.Text
	if strings.Contains(s, "%d") {
		s = fmt.Sprintf(s, a.N)
	}
	if a.Where != nil {
		s += a.Where()
	}
	return s
}
