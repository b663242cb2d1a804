package rank

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Lookup reads one environment variable; os.LookupEnv is one.
type Lookup = func(name string) (value string, ok bool)

// Environment variables of trainctl's own launcher, in addition to torchrun's.
const (
	EnvStore = "TRAINCTL_STORE"  // host:port of the store that the launcher hosts
	EnvRunID = "TRAINCTL_RUN_ID" // replaces the run id of any other source
	EnvJoins = "TRAINCTL_JOINS"  // set if the job has begun: the rank joins it
)

// EnvError reports a set of variables that describes a rank incompletely or wrongly.
type EnvError struct {
	Source string // the contract, as World.Source
	Var    string // the variable that is missing or wrong; empty if several contradict each other
	Detail string
}

func (e *EnvError) Error() string { return e.Source + " environment: " + e.Detail }

// Candidate is one set of variables found in the environment.
type Candidate struct {
	Source string
	Vars   []string // NAME=value of those found, in the order of the contract
	World  World    // meaningful when Err is nil
	Err    error    // why the set is unusable
	Winner bool
	Why    string // why it was chosen or not, for people
}

// FromEnv reads the world of this process. The first complete set of variables
// wins in the order of World.Source's list; without any it is a single rank. An
// incomplete set is an *EnvError with the missing variable; later sets are not
// tried, because a guessed rank is worse than none. The exception is WORLD_SIZE
// without RANK, which batch scripts often export: a later complete set wins over it.
func FromEnv(env Lookup) (World, error) {
	for _, c := range Explain(env) {
		if c.Winner {
			return c.World, c.Err
		}
	}
	panic("rank: Explain named no winner")
}

// Explain lists every set found, in order of precedence, with one winner. When
// the winner's Err is set, FromEnv fails with it. The last candidate is the
// single rank, which wins when nothing is set.
func Explain(env Lookup) []Candidate {
	var all []Candidate
	for _, c := range contracts {
		if found, ok := c.find(env); ok {
			all = append(all, found)
		}
	}
	all = append(all, Candidate{Source: "single", World: withRunID(Single(), env)})
	w := winner(all)
	for i := range all {
		judge(&all[i], all[w], i < w, i == w)
	}
	return all
}

// winner is the first set that is complete or has an error that is neither errOff
// nor errWeak. A weak set loses to a complete one, but not to the single rank.
func winner(all []Candidate) int {
	weak := -1
	last := len(all) - 1
	for i, c := range all[:last] {
		switch {
		case c.Err == nil:
			return i
		case errors.Is(c.Err, errOff):
		case errors.Is(c.Err, errWeak):
			if weak < 0 {
				weak = i
			}
		default:
			return i
		}
	}
	if weak >= 0 {
		return weak
	}
	return last
}

func judge(c *Candidate, won Candidate, before, is bool) {
	c.Winner = is
	switch {
	case is && c.Err != nil:
		c.Why = "found first, but unusable: " + c.Err.Error()
	case is && c.Source == "single":
		c.Why = "no launcher started this process as part of a job"
	case is:
		c.Why = "first complete set"
	case c.Err != nil:
		c.Why = c.Err.Error()
	case before:
		panic("rank: a complete set lost to a later one")
	default:
		c.Why = "comes after " + won.Source
	}
}

var (
	errOff  = errors.New("not meant for this process")
	errWeak = errors.New("is an incomplete launcher environment")
)

// weak is an error of a set that loses to a complete one.
type weak struct{ error }

func (w weak) Unwrap() error        { return w.error }
func (w weak) Is(target error) bool { return target == errWeak }

// contract is one set of variables with which a launcher tells a process its rank.
type contract struct {
	source   string
	triggers []string // the contract applies if any of them is set
	vars     []string // all that read uses, for Explain
	read     func(*reader) World
}

// contracts is in order of precedence: mpirun's before Slurm's, whose variables
// are also set when mpirun is started in an allocation.
var contracts = []contract{torchrun, openMPI, mpich, slurm, horovod, indexedJob}

func (c contract) find(env Lookup) (Candidate, bool) {
	r := &reader{env: env, source: c.source}
	if !r.any(c.triggers...) {
		return Candidate{}, false
	}
	w := c.read(r)
	if r.err == nil {
		w = withRunID(w, env)
		r.failIf(w.Validate())
	}
	return Candidate{Source: r.source, Vars: r.list(c.vars), World: w, Err: r.err}, true
}

func withRunID(w World, env Lookup) World {
	if id, ok := env(EnvRunID); ok && id != "" {
		w.RunID = id
	}
	return w
}

// reader reads variables of one contract and keeps the first error.
type reader struct {
	env    Lookup
	source string
	err    error
}

func (r *reader) get(name string) (string, bool) {
	v, ok := r.env(name)
	return strings.TrimSpace(v), ok && strings.TrimSpace(v) != ""
}

func (r *reader) any(names ...string) bool {
	for _, n := range names {
		if _, ok := r.get(n); ok {
			return true
		}
	}
	return false
}

func (r *reader) list(names []string) []string {
	var out []string
	for _, n := range names {
		if v, ok := r.get(n); ok {
			out = append(out, n+"="+v)
		}
	}
	return out
}

func (r *reader) fail(name, format string, args ...any) {
	if r.err == nil {
		r.err = &EnvError{Source: r.source, Var: name, Detail: fmt.Sprintf(format, args...)}
	}
}

func (r *reader) failIf(err error) {
	if err != nil {
		r.fail("", "%v", err)
	}
}

// text is a variable that the contract requires.
func (r *reader) text(name string) string {
	v, ok := r.get(name)
	if !ok {
		r.fail(name, "%s is missing", name)
	}
	return v
}

func (r *reader) number(name string) int { return r.upTo(math.MaxInt, "number from 0 up", name) }

// upTo reads a number from 0 to most, which a message calls what.
func (r *reader) upTo(most int, what, name string) int {
	v := r.text(name)
	if v == "" {
		return 0
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 || n > most {
		r.fail(name, "%s is %q, not a %s", name, v, what)
		return 0
	}
	return n
}

// largest is number of a variable that may also be a range, "2:8".
func (r *reader) largest(name string) int {
	if least, most, ok := strings.Cut(r.text(name), ":"); ok {
		n, err := strconv.Atoi(most)
		if m, bad := strconv.Atoi(least); err != nil || bad != nil || m < 1 || n < m {
			r.fail(name, "%s is %q, not a number or a range such as 2:8", name, r.text(name))
		}
		return n
	}
	return r.number(name)
}

func (r *reader) numberOr(name string, otherwise int) int {
	if _, ok := r.get(name); !ok {
		return otherwise
	}
	return r.number(name)
}

func (r *reader) textOr(otherwise string, names ...string) string {
	for _, n := range names {
		if v, ok := r.get(n); ok {
			return v
		}
	}
	return otherwise
}

// port reads a port and refuses what no socket could use.
func (r *reader) port(name string) int { return r.upTo(65535, "port in 0..65535", name) }
