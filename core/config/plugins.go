package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/sdk"
)

// PluginTable holds the settings of one plugin.
type PluginTable struct {
	Table   string // "backend", "precision", "dataset", "observers[0]" or "layer_plugins[0]"
	Kind    string // "backend", "precision", "dataset", "observer" or "layer"
	Plugin  string // name or path
	SHA256  string // "" if the file has none
	Version string // constraint, or ""
	Sandbox bool   // strict
	Network bool
	Options *map[string]any
}

// PluginTables returns the plugins of a run.
func (c *Config) PluginTables() []PluginTable {
	tables := []PluginTable{
		{"backend", "backend", c.Backend.Plugin, c.Backend.SHA256, c.Backend.Version, false, true, &c.Backend.Options},
		{"precision", "precision", c.Precision.Plugin, c.Precision.SHA256, c.Precision.Version, c.Precision.Sandbox, false, &c.Precision.Options},
		{"dataset", "dataset", c.Dataset.Plugin, c.Dataset.SHA256, c.Dataset.Version, c.Dataset.Sandbox, c.Dataset.Network, &c.Dataset.Options},
	}
	for i := range c.Observers {
		tables = append(tables, c.ObserverTable(i))
	}
	for i := range c.LayerPlugins {
		tables = append(tables, c.LayerTable(i))
	}
	return tables
}

// ObserverTable is an entry of [[observers]].
func (c *Config) ObserverTable(i int) PluginTable {
	o := &c.Observers[i]
	return PluginTable{element("observers", i), string(sdk.KindObserver), o.Plugin, o.SHA256, o.Version, o.Sandbox, o.Network, &o.Options}
}

// LayerTable is an entry of [[layer_plugins]], with the options of all its layers: those that name
// files decide what its sandbox lets it read.
func (c *Config) LayerTable(i int) PluginTable {
	p, options := &c.LayerPlugins[i], map[string]any{}
	c.Model.PluginLayers(func(key string, l *nn.LayerConfig) {
		if at, err := c.LayerPlugin(l.Plugin()); err == nil && at == i {
			for name, v := range l.Options {
				options[key+"."+name] = v
			}
		}
	})
	return PluginTable{element("layer_plugins", i), string(sdk.KindLayer), p.Plugin, p.SHA256, p.Version, p.Sandbox, p.Network, &options}
}

// LayerPlugin is the index of the entry of [[layer_plugins]] that a layer names; "" is the only one.
func (c *Config) LayerPlugin(name string) (int, error) {
	for i := range c.LayerPlugins {
		if c.LayerPlugins[i].Plugin == name || name == "" && len(c.LayerPlugins) == 1 {
			return i, nil
		}
	}
	if name == "" && len(c.LayerPlugins) > 1 {
		return 0, fmt.Errorf("there are %d layer plugins, and the layer does not say which one computes it; fix: set plugin", len(c.LayerPlugins))
	}
	if name == "" {
		return 0, errors.New(`the run has no layer plugin; fix: add [[layer_plugins]] with plugin = "./my-layer"`)
	}
	return 0, fmt.Errorf("the run has no layer plugin %q; fix: add [[layer_plugins]] with plugin = %[1]q", name)
}

// checkLayerPlugins reports layers whose plugin is not listed, and plugins that are listed twice or that no layer uses.
func (c *Config) checkLayerPlugins() {
	used := make([]bool, len(c.LayerPlugins))
	c.Model.PluginLayers(func(key string, l *nn.LayerConfig) {
		if i, err := c.LayerPlugin(l.Plugin()); err == nil {
			used[i] = true
		} else {
			msg, help, _ := strings.Cut(err.Error(), "; fix: ")
			at := join("model."+key, "type")
			if l.Plugin() != "" {
				at = join("model."+key, "plugin")
			}
			c.report.errorf(at, atValue, help, "%s", msg)
		}
	})
	for i := range c.LayerPlugins {
		p := &c.LayerPlugins[i]
		c.report.problems(element("layer_plugins", i), p.Problems())
		if first := slices.IndexFunc(c.LayerPlugins, func(o host.LayerPluginConfig) bool { return o.Plugin == p.Plugin }); first < i {
			c.report.errorf(element("layer_plugins", i)+".plugin", atValue, "remove one of the two: an entry serves all layers that name it", "%q is in %s already", p.Plugin, element("layer_plugins", first))
		} else if !used[i] && !c.report.bad["model"] && !c.report.bad["model.layers"] {
			c.report.warnf(element("layer_plugins", i)+".plugin", fmt.Sprintf("add a layer with type = \"plugin\" and plugin = %q, or remove the entry", p.Plugin), "no layer of the model uses %q: it is not started", p.Plugin)
		}
	}
}

// Key names the plugin of a table.
func (t PluginTable) Key() host.Key { return host.Key{Kind: sdk.Kind(t.Kind), Plugin: t.Plugin} }

// Terms returns what is required of all plugins.
func (c *Config) Terms() map[host.Key]host.Terms {
	terms := map[host.Key]host.Terms{}
	for _, t := range c.PluginTables() {
		terms[t.Key()] = c.TermsOf(t)
	}
	return terms
}

// TermsOf returns what a table requires of its plugin. A path has one checksum, whichever table
// gives it. A sandbox lets a plugin use the files and folders that its options name.
func (c *Config) TermsOf(t PluginTable) host.Terms {
	sum := t.SHA256
	for _, other := range c.PluginTables() {
		if registry.IsPath(t.Plugin) && other.Plugin == t.Plugin {
			sum = cmp.Or(sum, other.SHA256)
		}
	}
	k := t.Key()
	return host.Terms{
		SHA256: sum, Version: t.Version, Lock: c.Lock.Of(k.Kind, k.Plugin),
		Sandbox: c.Plugins.Rules(k.Kind, t.Sandbox, t.Network, *t.Options),
	}
}

// checkSums rejects two checksums for one file.
func (c *Config) checkSums() {
	first := map[string]PluginTable{}
	for _, t := range c.PluginTables() {
		other, again := first[t.Plugin]
		switch {
		case t.SHA256 == "" || !registry.IsPath(t.Plugin) || c.report.bad[t.Table+".sha256"]:
		case !again:
			first[t.Plugin] = t
		case other.SHA256 != t.SHA256:
			c.report.errorf(t.Table+".sha256", atValue, "run trainctl plugins lock CONFIG, which writes both", "differs from %s.sha256 of the same file", other.Table)
		}
	}
}

// plugins checks the options of every plugin.
func (c *Config) plugins(check CheckPlugin) (causes []error) {
	if check == nil {
		return nil
	}
	for _, t := range c.PluginTables() {
		if t.Plugin == "" || c.report.bad[t.Table+".plugin"] || c.report.bad[t.Table+".sha256"] {
			continue
		}
		resolved, problems, err := check(c, t)
		if l := usererr.Problems(err); l != nil {
			c.report.problems("", l)
		} else if err != nil {
			msg, help := startError(err)
			c.report.errorf(t.Table+".plugin", atValue, help, "%s", msg)
			causes = append(causes, err)
		}
		c.report.problems(t.Table+".options", problems)
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
