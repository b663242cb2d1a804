package config

import (
	"errors"
	"slices"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/plugin/host"
)

// PluginTable holds the settings of one plugin.
type PluginTable struct {
	Kind    string // the table: "backend", "precision" or "dataset"
	Plugin  string // name or path
	SHA256  string // "" if the file has none
	Options *map[string]any
}

// PluginTables returns the plugins of a run.
func (c *Config) PluginTables() []PluginTable {
	return []PluginTable{
		{"backend", c.Backend.Plugin, c.Backend.SHA256, &c.Backend.Options},
		{"precision", c.Precision.Plugin, c.Precision.SHA256, &c.Precision.Options},
		{"dataset", c.Dataset.Plugin, c.Dataset.SHA256, &c.Dataset.Options},
	}
}

// Checksums returns the checksums that plugins must have, by path.
func (c *Config) Checksums() map[string]string {
	sums := map[string]string{}
	for _, t := range c.PluginTables() {
		if t.SHA256 != "" {
			sums[t.Plugin] = t.SHA256
		}
	}
	return sums
}

// Sandboxes returns the plugins that are started in a sandbox, by path, and the
// files and folders that they may read: those named in their options.
func (c *Config) Sandboxes() map[string][]string {
	readable := map[string][]string{}
	add := func(plugin string, sandbox bool, options map[string]any) {
		if !sandbox {
			return
		}
		paths := readable[plugin]
		for _, v := range options {
			if path, ok := v.(string); ok && path != "" {
				paths = append(paths, path) // a value that is not a path names no file
			}
		}
		slices.Sort(paths)
		readable[plugin] = paths
	}
	add(c.Precision.Plugin, c.Precision.Sandbox, c.Precision.Options)
	add(c.Dataset.Plugin, c.Dataset.Sandbox, c.Dataset.Options)
	return readable
}

// checkSums rejects two checksums for one file.
func (c *Config) checkSums() {
	first := map[string]PluginTable{}
	for _, t := range c.PluginTables() {
		other, again := first[t.Plugin]
		switch {
		case t.SHA256 == "" || c.report.bad[t.Kind+".sha256"]:
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
		resolved, problems, err := check(c, t.Kind, t.Plugin, c.Checksums()[t.Plugin], *t.Options)
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
