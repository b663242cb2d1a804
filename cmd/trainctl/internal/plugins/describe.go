package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/plugin/sandbox"
	"github.com/trainctl/trainctl/core/sdk"
)

// pluginInfo describes a plugin.
type pluginInfo struct {
	Kind    string         `json:"kind"`
	Name    string         `json:"name"`
	Version string         `json:"version"`
	Summary string         `json:"summary"`
	Also    []string       `json:"also,omitempty"`   // other kinds that it serves
	From    string         `json:"from,omitempty"`   // where it was found
	Path    string         `json:"path,omitempty"`   // empty: built in
	SHA256  string         `json:"sha256,omitempty"` // of the executable
	Error   string         `json:"error,omitempty"`  // why it cannot be used
	Sandbox string         `json:"sandbox,omitempty"`
	Offers  string         `json:"offers,omitempty"` // a backend's operations and types
	Options []pluginOption `json:"options,omitempty"`

	published []sdk.Option
}

// pluginOption is one key of a plugin's table.
type pluginOption struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Default string `json:"default,omitempty"` // as TOML
	Unit    string `json:"unit,omitempty"`
	Limits  string `json:"limits,omitempty"` // "0 to 1", "O0, O1, O2, O3"
	Doc     string `json:"doc"`
}

// listed describes the plugins that a configuration can name; the list is never nil.
func listed(ctx context.Context, h *host.Host) []pluginInfo {
	out := []pluginInfo{}
	for _, l := range h.Catalog(ctx) {
		p := describePlugin(l.Info, l.Path)
		p.From, p.SHA256 = l.From, l.SHA256
		if l.Err != nil {
			p.Error = l.Err.Error()
		}
		out = append(out, p)
	}
	return out
}

// findPlugin describes the plugin of a kind, or of any kind if it is empty, with a name or path.
func findPlugin(ctx context.Context, h *host.Host, kind, name string) (pluginInfo, error) {
	kinds := registry.Kinds
	if kind != "" {
		kinds = []sdk.Kind{sdk.Kind(kind)}
	}
	var first error
	var found pluginInfo
	for _, k := range kinds {
		info, err := h.Describe(ctx, k, name)
		switch {
		case err == nil && found.Kind == "":
			found = describePlugin(info, h.PathOf(k, name))
			found.From = h.Attached(k, name)
		case err == nil:
			found.Also = append(found.Also, string(k))
		case first == nil || errors.Is(first, fs.ErrNotExist) && !errors.Is(err, fs.ErrNotExist):
			first = err
		}
	}
	switch {
	case found.Kind != "":
		found.Sandbox = sandboxOf(&found)
		return found, nil
	case kind == "" && !registry.IsPath(name) && errors.Is(first, fs.ErrNotExist):
		return found, unknownPlugin(name, h)
	}
	if kind == "" {
		first = host.OfAnyKind(first)
	}
	return found, first
}

// sandboxOf says what a plugin may do in a run, "" for a built-in one.
func sandboxOf(p *pluginInfo) string {
	rules := host.DefaultPlugins().Rules(sdk.Kind(p.Kind), false, false, nil)
	err := sandbox.Supported()
	switch {
	case p.From != "":
		return "none: it is " + p.From
	case p.Path == "":
		return ""
	case rules == nil:
		return "none: a backend needs the network"
	case err != nil:
		return "none: " + err.Error()
	}
	return rules.String() + ", and writes where its options point"
}

// unknownPlugin is the error for a name that no plugin of any kind has.
func unknownPlugin(name string, h *host.Host) error {
	text := fmt.Sprintf("no plugin is named %q", name)
	sep := "; built in are "
	for _, kind := range registry.Kinds {
		var names []string
		for _, i := range h.List() {
			if i.Kind == kind {
				names = append(names, i.Name)
			}
		}
		if names == nil {
			continue
		}
		text += fmt.Sprintf("%s%s %s", sep, kind, strings.Join(names, ", "))
		sep = "; "
	}
	text += fmt.Sprintf("; executables named trainctl-KIND-%s were looked for in %s", name, h.Search().Places())
	return cli.WithCode(errors.New(text+"; the path of an executable needs a slash, as in ./"+name), launch.ExitPlugin)
}

// offers lists the capabilities of a backend.
func offers(i sdk.Info) string {
	var parts []string
	for _, list := range []string{joined(i.Ops), joined(i.DTypes), strings.Join(i.Devices, " "), i.Determinism} {
		if list != "" {
			parts = append(parts, list)
		}
	}
	if i.MaxWorld > 0 {
		parts = append(parts, fmt.Sprintf("up to %d ranks", i.MaxWorld))
	}
	return strings.Join(parts, "; ")
}

func joined[T fmt.Stringer](list []T) string {
	names := make([]string, len(list))
	for i, v := range list {
		names[i] = v.String()
	}
	return strings.Join(names, " ")
}

func describePlugin(i sdk.Info, path string) pluginInfo {
	p := pluginInfo{Kind: string(i.Kind), Name: i.Name, Version: i.Version, Summary: i.Summary, Path: path, Offers: offers(i), published: i.Options}
	for _, o := range i.Options {
		p.Options = append(p.Options, pluginOption{
			Name: o.Name, Type: string(o.Type), Default: defaultText(o.Default), Unit: o.Unit, Limits: limits(o), Doc: o.Doc,
		})
	}
	return p
}

// defaultText writes a default as TOML, which for the types of options is the same
// as JSON.
func defaultText(v any) string {
	if v == nil {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

func limits(o sdk.Option) string {
	number := func(f *float64) string { return strconv.FormatFloat(*f, 'g', -1, 64) }
	switch {
	case len(o.Enum) > 0:
		return strings.Join(o.Enum, ", ")
	case o.Min != nil && o.Max != nil:
		return number(o.Min) + " to " + number(o.Max)
	case o.Min != nil:
		return "from " + number(o.Min)
	case o.Max != nil:
		return "to " + number(o.Max)
	}
	return ""
}
