package launch

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// Account is what a rank says of why it ends. At most one is set.
type Account struct {
	// Plugin is the one whose process hangs or has died.
	Plugin *PluginFault `json:"plugin,omitempty"`
	// Refusal is a mistake in the configuration, or in the data that it names, which
	// was found before the first step.
	Refusal *Refusal `json:"refusal,omitempty"`
}

// Refusal says what a user has to change.
type Refusal struct {
	Message  string       `json:"message"` // all of it, for where there are no keys
	Problems usererr.List `json:"problems,omitempty"`
}

// Err is the refusal as an error.
func (r *Refusal) Err() error {
	if len(r.Problems) > 0 {
		return r.Problems.Err()
	}
	return errors.New(r.Message)
}

// PluginFault is a plugin whose process hangs or has died, as the rank says that
// ends because of it.
type PluginFault struct {
	Kind      string `json:"kind"` // "backend", "dataset" or "precision"
	Name      string `json:"name"` // as in the configuration
	PID       int    `json:"pid"`
	Operation string `json:"operation"` // that it was asked for: "all_reduce #12", "fill"
	Hung      bool   `json:"hung"`      // else it died
	Cause     string `json:"cause"`     // how that was noticed, or how it died
	Restarts  int    `json:"restarts"`  // backend.restarts of the run
}

func (f *PluginFault) String() string {
	verb := "died in"
	if f.Hung {
		verb = "hangs in"
	}
	return fmt.Sprintf("%s %q (pid %d) %s %s: %s", f.Kind, f.Name, f.PID, verb, f.Operation, f.Cause)
}

// replace says which setting lets the ranks outlive the plugin. Only a backend
// can be replaced while they go on.
func (f *PluginFault) replace() []string {
	switch {
	case f.Kind != "backend":
		return nil
	case f.Restarts > 0:
		return []string{fmt.Sprintf("backend.restarts = %d did not save the run: it was used up, or the ranks could not agree on where to go on.", f.Restarts)}
	}
	return []string{"backend.restarts = 1 replaces a backend that hangs or dies while the ranks go on."}
}

// deadPlugin is what to do where a plugin died; of SIGKILL, as for a rank.
func (c Cause) deadPlugin() []string {
	why := ": its last lines are above, all of them in the rank's log."
	if strings.Contains(c.Plugin.Cause, "signal: killed") {
		why = ": somebody killed it" + fromOutside
	}
	return append([]string{fmt.Sprintf("The %s plugin of rank %d died%s", c.Plugin.Kind, c.Rank, why)}, c.Plugin.replace()...)
}

// hungPlugin is what to do where a plugin hung.
func (c Cause) hungPlugin() []string {
	advice := []string{fmt.Sprintf("The %s plugin of rank %d hangs in %s. If its process could still answer, a Go plugin's stack is above, and the stacks of all its goroutines are in the rank's log.",
		c.Plugin.Kind, c.Rank, c.Plugin.Operation)}
	advice = append(advice, c.Plugin.replace()...)
	if dir, inRun := strings.CutSuffix(filepath.Dir(c.Log), "/logs"); inRun {
		advice = append(advice, fmt.Sprintf("trainctl doctor --run %s shows where every rank's communication stands.", usererr.Shell(dir)))
	}
	return advice
}
