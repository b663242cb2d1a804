package host

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/plugin/sandbox"
	"github.com/trainctl/trainctl/core/sdk"
)

// Each plugin table has a name, the checksum of its executable, deadlines, and the
// plugin's own options, which the core passes on unchanged.

// BackendConfig is the table [backend].
type BackendConfig struct {
	Plugin      string         `toml:"plugin"`                                                                       // "auto", "tcp", "nccl", "mpi", the name of another plugin, or a path
	SHA256      string         `toml:"sha256" pattern:"^([0-9a-fA-F]{64})?$"`                                        // of the executable of a plugin that is not built in; "" does not check
	Version     string         `toml:"version" pattern:"^( *(=|!=|>=|<=|>|<|~>)? *v?[0-9][0-9A-Za-z.+-]* *(,|$))*$"` // constraint, such as "~> 1.2"; "" allows all versions
	Timeout     time.Duration  `toml:"timeout"`                                                                      // for one collective
	InitTimeout time.Duration  `toml:"init_timeout"`                                                                 // from the start of the plugin to the first collective
	Restarts    int            `toml:"restarts"`                                                                     // how often a backend that died or hangs is replaced while the ranks go on
	Env         []string       `toml:"env"`                                                                          // variables that the plugin inherits in addition to the usual ones; a trailing * matches any suffix
	Options     map[string]any `toml:"options"`
}

// PrecisionConfig is the table [precision].
type PrecisionConfig struct {
	Plugin   string         `toml:"plugin"`                                                                       // "none", "amp", the name of another plugin, or a path
	SHA256   string         `toml:"sha256" pattern:"^([0-9a-fA-F]{64})?$"`                                        // of the executable of a plugin that is not built in; "" does not check
	Version  string         `toml:"version" pattern:"^( *(=|!=|>=|<=|>|<|~>)? *v?[0-9][0-9A-Za-z.+-]* *(,|$))*$"` // constraint, such as "~> 1.2"; "" allows all versions
	Sandbox  bool           `toml:"sandbox"`                                                                      // start a plugin that is not built in without network and foreign files
	Restarts int            `toml:"restarts"`                                                                     // how often a plugin that died or hangs is replaced while its rank goes on
	Options  map[string]any `toml:"options"`
}

// DatasetConfig is the table [dataset].
type DatasetConfig struct {
	Plugin     string         `toml:"plugin"`                                                                       // "mnist", "fashion-mnist", "synthetic", the name of another plugin, or a path
	SHA256     string         `toml:"sha256" pattern:"^([0-9a-fA-F]{64})?$"`                                        // of the executable of a plugin that is not built in; "" does not check
	Version    string         `toml:"version" pattern:"^( *(=|!=|>=|<=|>|<|~>)? *v?[0-9][0-9A-Za-z.+-]* *(,|$))*$"` // constraint, such as "~> 1.2"; "" allows all versions
	Sandbox    bool           `toml:"sandbox"`                                                                      // start a plugin that is not built in without network and foreign files
	Network    bool           `toml:"network"`                                                                      // let a plugin that is not built in reach other hosts
	Timeout    time.Duration  `toml:"timeout"`                                                                      // for one batch
	Validation float64        `toml:"validation"`                                                                   // share of the training samples that is evaluated on in place of the test set
	Restarts   int            `toml:"restarts"`                                                                     // how often a plugin that died or hangs is replaced while its rank goes on
	Options    map[string]any `toml:"options"`
}

// ObserverConfig is an entry of [[observers]].
type ObserverConfig struct {
	Plugin       string         `toml:"plugin"`                                                                       // "mlflow", the name of another plugin, or a path
	SHA256       string         `toml:"sha256" pattern:"^([0-9a-fA-F]{64})?$"`                                        // of the executable of a plugin that is not built in; "" does not check
	Version      string         `toml:"version" pattern:"^( *(=|!=|>=|<=|>|<|~>)? *v?[0-9][0-9A-Za-z.+-]* *(,|$))*$"` // constraint, such as "~> 1.2"; "" allows all versions
	Sandbox      bool           `toml:"sandbox"`                                                                      // start a plugin that is not built in without network and foreign files
	Network      bool           `toml:"network"`                                                                      // let a plugin that is not built in reach other hosts
	Timeout      time.Duration  `toml:"timeout"`                                                                      // for opening it, and for one batch of events
	CloseTimeout time.Duration  `toml:"close_timeout"`                                                                // how long the end of the run waits for it
	Restarts     int            `toml:"restarts"`                                                                     // how often a plugin that died or hangs is replaced
	Env          []string       `toml:"env"`                                                                          // variables that the plugin inherits in addition to the usual ones; a trailing * matches any suffix
	Options      map[string]any `toml:"options"`
}

// SetDefaults sets the defaults of an entry.
func (c *ObserverConfig) SetDefaults() {
	c.Timeout, c.CloseTimeout, c.Restarts = 30*time.Second, 10*time.Second, 1
}

// Problems checks the entry by itself.
func (c ObserverConfig) Problems() usererr.List {
	l := pluginProblems(c.Plugin, c.SHA256, c.Version, `"mlflow" or a path such as "./my-observer"`)
	positive(&l, "timeout", c.Timeout, "30s")
	positive(&l, "close_timeout", c.CloseTimeout, "10s")
	restartProblems(&l, c.Restarts, "continues the run without it")
	return l
}

// LayerPluginConfig is an entry of [[layer_plugins]]. Options belong to the layers.
type LayerPluginConfig struct {
	Plugin   string        `toml:"plugin"`                                                                       // name of the plugin, or a path
	SHA256   string        `toml:"sha256" pattern:"^([0-9a-fA-F]{64})?$"`                                        // of the executable; "" does not check
	Version  string        `toml:"version" pattern:"^( *(=|!=|>=|<=|>|<|~>)? *v?[0-9][0-9A-Za-z.+-]* *(,|$))*$"` // constraint, such as "~> 1.2"; "" allows all versions
	Sandbox  bool          `toml:"sandbox"`                                                                      // start it without network and foreign files
	Network  bool          `toml:"network"`                                                                      // let it reach other hosts
	Timeout  time.Duration `toml:"timeout"`                                                                      // for one call
	Restarts int           `toml:"restarts"`                                                                     // how often a plugin that died or hangs is replaced while its rank goes on
}

// SetDefaults sets the defaults of an entry.
func (c *LayerPluginConfig) SetDefaults() { c.Timeout = time.Minute }

// Problems checks the entry by itself.
func (c LayerPluginConfig) Problems() usererr.List {
	l := pluginProblems(c.Plugin, c.SHA256, c.Version, `a path such as "./my-layer"`)
	positive(&l, "timeout", c.Timeout, "1m")
	restartProblems(&l, c.Restarts, "ends the run")
	return l
}

// PluginsConfig is the table [plugins], which holds for all plugins that are not built in.
type PluginsConfig struct {
	Sandbox string `toml:"sandbox" words:"auto,off"` // restrict what plugins other than backends may do where the kernel can enforce it
}

// DefaultPlugins restricts plugins where the kernel can enforce it.
func DefaultPlugins() PluginsConfig { return PluginsConfig{Sandbox: "auto"} }

// Problems checks the table.
func (c PluginsConfig) Problems() (l usererr.List) {
	if c.Sandbox != "auto" && c.Sandbox != "off" {
		l.Addf("sandbox", `use "auto" or "off"`, "unknown mode %q", c.Sandbox)
	}
	return l
}

// Rules returns the sandbox of a plugin whose options, as written in the TOML, may name files and
// folders; strict is the key sandbox of the plugin's own table. It is nil if the plugin has none.
func (c PluginsConfig) Rules(kind sdk.Kind, strict, network bool, options map[string]any) *sandbox.Rules {
	switch {
	case strict:
		return &sandbox.Rules{Strict: true, Read: paths(options)}
	case kind == sdk.KindBackend || c.Sandbox == "off":
		return nil
	}
	r := sandbox.Usual(paths(options))
	r.Network = network
	return &r
}

// paths lists the values of options that may be paths; one that is not names no file.
func paths(options map[string]any) (paths []string) {
	for _, v := range options {
		if path, ok := v.(string); ok && path != "" {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// DefaultBackend selects the backend by device. Its timeout for a collective allows
// for a slow peer; PyTorch waits 10 to 30 minutes, which hides a hang.
func DefaultBackend() BackendConfig {
	return BackendConfig{Plugin: "auto", Timeout: 5 * time.Minute, InitTimeout: 2 * time.Minute}
}

// DefaultPrecision computes in the run's dtype.
func DefaultPrecision() PrecisionConfig { return PrecisionConfig{Plugin: "none"} }

// DefaultDataset has no plugin: the file must name one.
func DefaultDataset() DatasetConfig { return DatasetConfig{Timeout: 5 * time.Minute} }

// Problems checks the table; its options are checked later against those that the
// plugin publishes.
func (c BackendConfig) Problems() usererr.List {
	l := pluginProblems(c.Plugin, c.SHA256, c.Version, `"auto", "tcp", "nccl", "mpi" or a path such as "./my-backend"`)
	positive(&l, "timeout", c.Timeout, "5m")
	positive(&l, "init_timeout", c.InitTimeout, "2m")
	restartProblems(&l, c.Restarts, "ends the run")
	return l
}

// restartProblems checks how often a plugin is replaced; never is what 0 does.
func restartProblems(l *usererr.List, n int, never string) {
	if n < 0 {
		l.Addf("restarts", "give 0 or more; 0 "+never+" when the plugin dies", "%d is negative", n)
	}
}

// Problems checks the table by itself.
func (c PrecisionConfig) Problems() usererr.List {
	l := pluginProblems(c.Plugin, c.SHA256, c.Version, `"none", "amp" or a path such as "./my-precision"`)
	restartProblems(&l, c.Restarts, "ends the run")
	return l
}

// Problems checks the table by itself.
func (c DatasetConfig) Problems() usererr.List {
	l := pluginProblems(c.Plugin, c.SHA256, c.Version, `"mnist", "fashion-mnist", "synthetic" or a path such as "./my-dataset"`)
	positive(&l, "timeout", c.Timeout, "5m")
	if !(c.Validation >= 0 && c.Validation < 1) {
		l.Addf("validation", "write 0.1 to hold a tenth of the training samples out, or remove it", "%v is not a share of the training samples, from 0 to less than 1", c.Validation)
	}
	restartProblems(&l, c.Restarts, "ends the run")
	return l
}

func pluginProblems(plugin, sum, version, choices string) (l usererr.List) {
	if strings.TrimSpace(plugin) == "" {
		l.Addf("plugin", "write plugin = "+choices, "no plugin is set")
	}
	if _, err := registry.ParseConstraint(version); err != nil {
		l.Addf("version", `write for example "~> 1.2", which is 1.2 or newer but older than 2, or ">= 1.2, < 1.5"`, "%v", err)
	}
	switch _, err := registry.ParseSum(sum); {
	case sum == "":
	case plugin == "auto":
		l.Addf("sha256", noSum, "%q is a built-in plugin, which has no separate file to check", plugin)
	case err != nil:
		l.Addf("sha256", "run trainctl plugins lock CONFIG, which writes it", "%v", err)
	}
	return l
}

const noSum = `remove the key, or set sha256 = ""`

// CheckTerms returns what the terms of a built-in plugin require in vain. Keys are
// relative to the plugin's table.
func (h *Host) CheckTerms(k Key) (l usererr.List) {
	t := h.opts.Terms[k]
	if !h.BuiltIn(k.Kind, k.Plugin) {
		return nil
	}
	if t.SHA256 != "" {
		l.Addf("sha256", noSum, "%q is a built-in plugin, which has no separate file to check", k.Plugin)
	}
	if t.Sandbox != nil && t.Sandbox.Strict {
		l.Addf("sandbox", "remove the key: only plugins that are not built in can be sandboxed", "%q is a built-in plugin", k.Plugin)
	}
	return l
}

func positive(l *usererr.List, key string, d time.Duration, example string) {
	if d <= 0 {
		l.Addf(key, fmt.Sprintf("waits must be bounded: set a duration such as %q", example), "%v is not a positive duration", d)
	}
}
