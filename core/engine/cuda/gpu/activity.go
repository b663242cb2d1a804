package gpu

import (
	"fmt"
	"strings"
)

// Activity is what something is done or waited for, put into words when somebody has to be told.
type Activity struct {
	Text  string
	N     int           // for Text's %d, if it has one
	Where func() string // more, known when it is asked for; may be nil
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
