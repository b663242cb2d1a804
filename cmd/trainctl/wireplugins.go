package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/trainctl/trainctl/core/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// pluginServices are plugins over the host.
func pluginServices(h *host.Host) plugins {
	return plugins{
		List: func() ([]pluginInfo, error) {
			var out []pluginInfo
			for _, info := range h.List() {
				out = append(out, describePlugin(info, ""))
			}
			return out, nil
		},
		Info: func(ctx context.Context, kind, name string) (pluginInfo, error) {
			kinds := []sdk.Kind{sdk.KindBackend, sdk.KindPrecision, sdk.KindDataset}
			if kind != "" {
				kinds = []sdk.Kind{sdk.Kind(kind)}
			}
			var first error
			for _, k := range kinds {
				info, err := h.Describe(ctx, k, name)
				if err == nil {
					path := ""
					if host.IsPath(name) {
						path = name
					}
					return describePlugin(info, path), nil
				}
				if first == nil {
					first = err
				}
			}
			return pluginInfo{}, first
		},
		Probe: func(ctx context.Context, kind, name string) error {
			_, err := h.Probe(ctx, sdk.Kind(kind), name)
			return err
		},
	}
}

func describePlugin(i sdk.Info, path string) pluginInfo {
	p := pluginInfo{Kind: string(i.Kind), Name: i.Name, Version: i.Version, Summary: i.Summary, Path: path}
	for _, o := range i.Options {
		p.Options = append(p.Options, pluginOption{
			Name: o.Name, Type: string(o.Type), Default: defaultText(o.Default), Unit: o.Unit, Limits: limits(o), Doc: o.Doc,
		})
	}
	return p
}

// defaultText writes a default as TOML does, which for the types that options
// have is as JSON does.
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
