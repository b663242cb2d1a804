package host

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/sdk"
)

// Listed is a plugin that a configuration can name.
type Listed struct {
	Info   sdk.Info // at least its kind and name
	From   string   // "built in", or why the folder is searched
	Path   string   // of the executable; "" if it is built in
	SHA256 string   // of the executable, hexadecimal; "" if it is built in
	Err    error    // why it cannot be used; nil if it can
}

// probes is how many plugins are started at the same time.
const probes = 4

// Catalog lists the built-in plugins and those that are found by name, ordered by kind and
// name. It starts each of the latter briefly.
func (h *Host) Catalog(ctx context.Context) []Listed {
	var all []Listed
	for _, info := range h.List() {
		all = append(all, Listed{Info: info, From: "built in"})
	}
	found := h.Search().All()
	listed := make([][]Listed, len(found))
	var g errgroup.Group
	g.SetLimit(probes)
	for i := range found {
		g.Go(func() error {
			listed[i] = h.probeAll(ctx, &found[i])
			return nil
		})
	}
	_ = g.Wait() // no member returns an error
	for _, l := range listed {
		all = append(all, l...)
	}
	slices.SortStableFunc(all, func(a, b Listed) int {
		return cmp.Or(strings.Compare(string(a.Info.Kind), string(b.Info.Kind)), strings.Compare(a.Info.Name, b.Info.Name))
	})
	return all
}

// probeAll starts a plugin that was found, once for each kind that it may serve.
func (h *Host) probeAll(ctx context.Context, p *registry.Plugin) (served []Listed) {
	kinds := []sdk.Kind{p.Kind}
	if p.Kind == registry.AnyKind {
		kinds = registry.Kinds
	}
	l := Listed{From: p.Folder.Origin, Path: p.Path}
	sum, failed := p.TreeSum()
	l.SHA256 = sum
	for _, kind := range kinds {
		info, err := h.Probe(ctx, kind, p.Path)
		if err != nil {
			failed = err
			continue
		}
		l.Info = info
		l.Info.Name = p.Name
		served = append(served, l)
	}
	if len(served) == 0 {
		l.Info = sdk.Info{Kind: p.Kind, Name: p.Name, Version: p.Version}
		l.Err = bare(failed)
		served = append(served, l)
	}
	return served
}

// bare is an error without the name of the plugin, which is shown beside it.
func bare(err error) error {
	var start *StartError
	if errors.As(err, &start) {
		return errors.New(start.Problem)
	}
	return err
}
