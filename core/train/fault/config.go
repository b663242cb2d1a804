package fault

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/trainctl/trainctl/core/base/pattern"
	"github.com/trainctl/trainctl/core/base/usererr"
)

// Config is the table [faults].
type Config struct {
	At []string `toml:"at"` // "step 50: kill rank 3"
}

// Problems checks the table by itself.
func (c Config) Problems() (l usererr.List) {
	for i, text := range c.At {
		if _, err := parse(text); err != nil {
			l.Addf(fmt.Sprintf("at[%d]", i), `write "step N: " and one of `+forms, "%v", err)
		}
	}
	return l
}

// Faults are the faults of a table without problems, in the order of their steps.
func (c Config) Faults() (all []Fault) {
	for _, text := range c.At {
		f, err := parse(text)
		if err != nil {
			panic("fault: " + err.Error()) // Problems reports it
		}
		all = append(all, f)
	}
	slices.SortStableFunc(all, func(a, b Fault) int { return a.Step - b.Step })
	return all
}

// The kinds of faults.
const (
	Kill     = "kill"      // a rank or a plugin, by SIGKILL
	Hang     = "hang"      // a plugin, by SIGSTOP
	Delay    = "delay"     // a rank sleeps
	Silence  = "silence"   // the backend plugins of a node are stopped, and continue
	Damage   = "damage"    // a bit of the newest checkpoint
	FillDisk = "fill disk" // checkpoints cannot be written
)

// Fault is one fault.
type Fault struct {
	Text string
	Step int // the fault happens before this step, from 1
	Do   string

	Plugin string        // of Kill and Hang: "backend", "dataset" or "precision"; "": the rank itself
	Rank   int           // the rank that it affects
	Node   int           // of Silence
	For    time.Duration // of Delay and Silence
	Steps  int           // of FillDisk: how many steps it lasts; 0: to the end
}

// forms lists how faults are written, for messages.
const forms = `"kill rank 3", "kill dataset of rank 3", "hang backend of rank 1", "delay rank 2 by 200ms", "silence node 1 for 5s", "damage checkpoint", "fill disk", "fill disk for 10 steps"`

var (
	atStep  = pattern.Lazy{Expr: `^step ([1-9][0-9]{0,17}): (.+)$`}
	ofRank  = pattern.Lazy{Expr: `^(kill|hang|delay)(?: (backend|dataset|precision) of)? rank ([0-9]{1,9})(?: by ([0-9.a-zµ]+))?$`}
	ofNode  = pattern.Lazy{Expr: `^silence node ([0-9]{1,9}) for ([0-9.a-zµ]+)$`}
	ofDisk  = pattern.Lazy{Expr: `^fill disk(?: for ([1-9][0-9]{0,8}) steps?)?$`}
	damages = "damage checkpoint"
)

func parse(text string) (f Fault, err error) {
	m := atStep.Get().FindStringSubmatch(text)
	if m == nil {
		return f, fmt.Errorf("%q does not begin with \"step N: \"", text)
	}
	f = Fault{Text: text, Step: number(m[1])}
	what := m[2]
	unknown := fmt.Errorf("%q is not a fault", what)
	switch {
	case what == damages:
		f.Do = Damage
	case ofDisk.Get().MatchString(what):
		f.Do, f.Steps = FillDisk, number(ofDisk.Get().FindStringSubmatch(what)[1])
	case ofNode.Get().MatchString(what):
		m := ofNode.Get().FindStringSubmatch(what)
		f.Do, f.Node = Silence, number(m[1])
		f.For, err = duration(m[2])
	case ofRank.Get().MatchString(what):
		m := ofRank.Get().FindStringSubmatch(what)
		f.Do, f.Plugin, f.Rank = m[1], m[2], number(m[3])
		if (f.Do == Delay) != (m[4] != "") || f.Do == Delay && f.Plugin != "" || f.Do == Hang && f.Plugin == "" {
			return f, unknown
		}
		if f.Do == Delay {
			f.For, err = duration(m[4])
		}
	default:
		return f, unknown
	}
	return f, err
}

// number reads digits that a pattern has matched; none are 0.
func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}

func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is not a duration above 0, such as \"5s\"", text)
	}
	return d, nil
}
