package config

import (
	"cmp"
	"errors"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/sdk"
)

// PluginTable holds the settings of one plugin.
type PluginTable struct {
	Kind    string // the table: "backend", "precision" or "dataset"
	Plugin  string // name or path
	SHA256  string // "" if the file has none
	Version string // constraint, or ""
	Sandbox bool   // strict
	Network bool
	Options *map[string]any
}

// PluginTables returns the plugins of a run.
func (c *Config) PluginTables() []PluginTable {
	return []PluginTable{
		{"backend", c.Backend.Plugin, c.Backend.SHA256, c.Backend.Version, false, true, &c.Backend.Options},
		{"precision", c.Precision.Plugin, c.Precision.SHA256, c.Precision.Version, c.Precision.Sandbox, false, &c.Precision.Options},
		{"dataset", c.Dataset.Plugin, c.Dataset.SHA256, c.Dataset.Version, c.Dataset.Sandbox, c.Dataset.Network, &c.Dataset.Options},
	}
}

// Terms returns what is required of the plugins. A path has one checksum, whichever table
// gives it. A sandbox lets a plugin use the files and folders that its options name.
func (c *Config) Terms() map[host.Key]host.Terms {
	sums := map[string]string{}
	for _, t := range c.PluginTables() {
		if registry.IsPath(t.Plugin) && t.SHA256 != "" {
			sums[t.Plugin] = t.SHA256
		}
	}
	terms := map[host.Key]host.Terms{}
	for _, t := range c.PluginTables() {
		k := host.Key{Kind: sdk.Kind(t.Kind), Plugin: t.Plugin}
		terms[k] = host.Terms{
			SHA256: cmp.Or(t.SHA256, sums[t.Plugin]), Version: t.Version, Lock: c.Lock.Of(k.Kind, k.Plugin),
			Sandbox: c.Plugins.Rules(k.Kind, t.Sandbox, t.Network, *t.Options),
		}
	}
	return terms
}

// checkSums rejects two checksums for one file.
func (c *Config) checkSums() {
	first := map[string]PluginTable{}
	for _, t := range c.PluginTables() {
		other, again := first[t.Plugin]
		switch {
		case t.SHA256 == "" || !registry.IsPath(t.Plugin) || c.report.bad[t.Kind+".sha256"]:
		case !again:
			first[t.Plugin] = t
		case other.SHA256 != t.SHA256:
			c.report.errorf(t.Kind+".sha256", atValue, "run trainctl plugins lock CONFIG, which writes both", "differs from %s.sha256 of the same file", other.Kind)
		}
	}
}

// plugins checks the options of every plugin.
func (c *Config) plugins(check CheckPlugin) (causes []error) {
	if check == nil {
		return nil
	}
	for _, t := range c.PluginTables() {
		if t.Plugin == "" || c.report.bad[t.Kind+".plugin"] || c.report.bad[t.Kind+".sha256"] {
			continue
		}
		resolved, problems, err := check(c, t.Kind, t.Plugin, *t.Options)
		if l := usererr.Problems(err); l != nil {
			c.report.problems("", l)
		} else if err != nil {
			msg, help := startError(err)
			c.report.errorf(t.Kind+".plugin", atValue, help, "%s", msg)
			causes = append(causes, err)
		}
		c.report.problems(t.Kind+".options", problems)
		if resolved != nil {
			*t.Options = resolved
		}
	}
	return causes
}

// startError splits a host's error into message and help, which is shown separately.
func startError(err error) (msg, help string) {
	var start *host.StartError
	if !errors.As(err, &start) {
		return err.Error(), ""
	}
	bare := *start
	bare.Help = ""
	return bare.Error(), start.Help
}
