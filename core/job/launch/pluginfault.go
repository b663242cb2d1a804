package launch

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// Account is what a rank reports about why it ends. At most one field is set.
type Account struct {
	// Plugin is the plugin whose process hangs or has died.
	Plugin *PluginFault `json:"plugin,omitempty"`
	// Refusal is a mistake in the configuration, or in the data it refers to, found
	// before the first step.
	Refusal *Refusal `json:"refusal,omitempty"`
}

// Refusal says what a user has to change.
type Refusal struct {
	Message  string       `json:"message"` // the whole error, used where Problems is empty
	Problems usererr.List `json:"problems,omitempty"`
}

// Err is the refusal as an error.
func (r *Refusal) Err() error {
	if len(r.Problems) > 0 {
		return r.Problems.Err()
	}
	return errors.New(r.Message)
}

// PluginFault is a plugin whose process hangs or has died, as reported by the
// rank that ends because of it.
type PluginFault struct {
	Kind      string `json:"kind"` // "backend", "dataset", "precision" or "layer"
	Name      string `json:"name"` // as in the configuration
	PID       int    `json:"pid"`
	Operation string `json:"operation"`          // the one that it was executing: "all_reduce #12", "fill"
	Hung      bool   `json:"hung"`               // false: it died
	Cause     string `json:"cause"`              // how that was noticed, or how it died
	Restarts  int    `json:"restarts"`           // restarts of the plugin's table in the configuration
	Attached  bool   `json:"attached,omitempty"` // a person has started it, see TRAINCTL_REATTACH
}

func (f *PluginFault) String() string {
	verb := "died in"
	if f.Hung {
		verb = "hangs in"
	}
	return fmt.Sprintf("%s %q (pid %d) %s %s: %s", f.Kind, f.Name, f.PID, verb, f.Operation, f.Cause)
}

// table is the table of the configuration for the plugin.
func (f *PluginFault) table() string {
	if f.Kind == "layer" {
		return "layer_plugins"
	}
	return f.Kind
}

// replace says which setting keeps the ranks running when the plugin fails.
func (f *PluginFault) replace() []string {
	switch {
	case f.Attached:
		return []string{"It was started by hand: start it again, and export the line that it prints."}
	case f.Restarts > 0 && f.Kind == "backend":
		return []string{fmt.Sprintf("backend.restarts = %d did not save the run: all restarts were used, or the ranks could not agree on the step to continue from.", f.Restarts)}
	case f.Restarts > 0:
		return []string{fmt.Sprintf("%s.restarts = %d did not save the run: all restarts of this rank were used.", f.table(), f.Restarts)}
	}
	return []string{fmt.Sprintf("%s.restarts = 1 replaces a %s plugin that hangs or dies without restarting the ranks.", f.table(), f.Kind)}
}

// deadPlugin is the advice for a plugin that died; after SIGKILL it is the same as
// for a rank.
func (c Cause) deadPlugin() []string {
	why := ": its last lines are above, its full output is in the rank's log."
	if c.Plugin.Attached {
		why = ": its output is in the terminal where it was started."
	}
	if strings.Contains(c.Plugin.Cause, "signal: killed") {
		why = ": it was killed" + fromOutside
	}
	return append([]string{fmt.Sprintf("The %s plugin of rank %d died%s", c.Plugin.Kind, c.Rank, why)}, c.Plugin.replace()...)
}

// hungPlugin is the advice for a plugin that hangs.
func (c Cause) hungPlugin() []string {
	advice := []string{fmt.Sprintf("The %s plugin of rank %d hangs in %s. If it is a Go plugin whose process still responded, its stack is above, and the stacks of all its goroutines are in the rank's log.",
		c.Plugin.Kind, c.Rank, c.Plugin.Operation)}
	advice = append(advice, c.Plugin.replace()...)
	if dir, inRun := strings.CutSuffix(filepath.Dir(c.Log), "/logs"); inRun {
		advice = append(advice, fmt.Sprintf("trainctl doctor --run %s shows the state of every rank's communication.", usererr.Shell(dir)))
	}
	return advice
}
