package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// pluginServices implements plugins with the plugin host.
func pluginServices(h *host.Host) plugins {
	return plugins{
		List: func() []pluginInfo {
			out := []pluginInfo{}
			for _, info := range h.List() {
				out = append(out, describePlugin(info, ""))
			}
			return out
		},
		Info: func(ctx context.Context, kind, name string) (pluginInfo, error) {
			kinds := []sdk.Kind{sdk.KindBackend, sdk.KindPrecision, sdk.KindDataset}
			if kind != "" {
				kinds = []sdk.Kind{sdk.Kind(kind)}
			}
			var first error
			var found pluginInfo
			for _, k := range kinds {
				info, err := h.Describe(ctx, k, name)
				switch {
				case err == nil && found.Kind == "":
					found = describePlugin(info, pathOf(name))
				case err == nil:
					found.Also = append(found.Also, string(k))
				case first == nil:
					first = err
				}
			}
			switch {
			case found.Kind != "":
				return found, nil
			case kind == "" && !host.IsPath(name):
				return found, unknownPlugin(name, h.List())
			}
			return found, first
		},
		Probe: func(ctx context.Context, kind, name, sum string) (pluginInfo, error) {
			info, err := h.WithChecksums(map[string]string{name: sum}).Probe(ctx, sdk.Kind(kind), name)
			return describePlugin(info, pathOf(name)), err
		},
		Backend: app.Backend,
	}
}

// unknownPlugin is the error for a name that no built-in plugin of any kind has.
func unknownPlugin(name string, known []sdk.Info) error {
	text := fmt.Sprintf("no built-in plugin is named %q", name)
	sep := "; there are "
	for _, kind := range []sdk.Kind{sdk.KindBackend, sdk.KindDataset, sdk.KindPrecision} {
		var names []string
		for _, i := range known {
			if i.Kind == kind {
				names = append(names, i.Name)
			}
		}
		text += fmt.Sprintf("%s%s %s", sep, kind, strings.Join(names, ", "))
		sep = "; "
	}
	return codedError{errors.New(text + "; the path of an executable needs a slash, as in ./" + name), launch.ExitPlugin}
}

// pathOf is a plugin's path, "" for a built-in one.
func pathOf(name string) string {
	if host.IsPath(name) {
		return name
	}
	return ""
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
