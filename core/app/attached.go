package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/plugin/reattach"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
)

// heldFor is how long a rank may wait in a run whose plugins a debugger may hold.
const heldFor = 24 * time.Hour

// attached are the processes of a configuration's plugins that a person has started, by plugin;
// of those that TRAINCTL_REATTACH names in vain, the names.
func attached(c *config.Config, h *host.Host) (found map[string]string, unused []string) {
	set, err := reattach.FromEnv()
	if err != nil {
		return nil, nil // starting the plugins reports it
	}
	found = map[string]string{}
	used := map[string]bool{}
	for _, t := range c.PluginTables() {
		if at := h.Attached(sdk.Kind(t.Kind), t.Plugin); at != "" {
			found[t.Kind+" plugin "+t.Plugin] = at
			name, _ := set.Of(t.Plugin)
			used[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !used[name] {
			unused = append(unused, name)
		}
	}
	return found, unused
}

// patient returns the configuration without the deadlines that would end a run while a debugger
// holds one of its plugins: the other ranks wait for that one.
func patient(c *config.Config, builtins []host.Builtin) *config.Config {
	if found, _ := attached(c, host.New(host.Options{Builtins: builtins})); len(found) == 0 {
		return c
	}
	held := *c
	for _, d := range []*time.Duration{&held.Backend.Timeout, &held.Backend.InitTimeout, &held.Dataset.Timeout} {
		*d = max(*d, heldFor)
	}
	return &held
}

// warnAttached says once for each host what is not as in other runs.
func warnAttached(c *config.Config, w rank.World, h *host.Host, bus *event.Bus) {
	if w.LocalRank != 0 {
		return
	}
	found, unused := attached(c, h)
	if len(found) > 0 {
		var list []string
		for _, plugin := range slices.Sorted(maps.Keys(found)) {
			list = append(list, plugin+" is "+found[plugin])
		}
		bus.Emit(&event.Warning{Source: "plugins", Message: strings.Join(list, ", ") +
			": such a plugin has no checksum, lock, sandbox, restarts or environment from here, and no timeout applies to this run, because a debugger may hold it"})
	}
	for _, name := range unused {
		bus.Emit(&event.Warning{Source: "plugins", Message: fmt.Sprintf("%s names %s, %s", pb.EnvReattach, name, whyUnused(name, h))})
	}
}

// whyUnused says why no plugin of a name is attached, and what to do.
func whyUnused(name string, h *host.Host) string {
	if slices.ContainsFunc(h.List(), func(p sdk.Info) bool { return p.Name == name }) {
		return `which is built in, and built-in plugins cannot be attached; fix: start trainctl itself in the debugger with --set launch.ranks=threads, which runs them in its process`
	}
	return "and the configuration uses no plugin of that name; fix: use the name in the configuration, or rename the entry to what plugin = says"
}

// checkAttached refuses a job with more ranks on this host than a plugin has processes to attach.
func (j *job) checkAttached() error {
	for _, t := range j.Config.PluginTables() {
		if err := host.New(host.Options{Builtins: j.Builtins, LocalRank: j.nproc - 1}).CheckAttached(sdk.Kind(t.Kind), t.Plugin); err != nil {
			return err
		}
	}
	return nil
}
