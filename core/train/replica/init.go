package replica

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// AssignInit copies the tensors of model.init into the model as [model] says: renamed, without those that it
// skips. Tensors that the file may lack are initialised as without a file. The notes say what was adapted.
func (m *Model) AssignInit(c nn.Config, seed uint64, src []tensor.Named, float tensor.DType) (in event.ModelInit, notes []string, err error) {
	full := m.Full()
	if c.PartialInit() {
		if err := nn.Initialize(c, m.Graph, seed, full); err != nil {
			return in, nil, err
		}
	}
	if in, notes, err = fillInit(c, m.Graph, m.Named(full), src, float); err == nil {
		m.PutFull(full)
	}
	return in, notes, err
}

// CheckInit reads model.init as training does. It describes what comes from the file, and returns
// an error if its tensors do not fit the model.
func CheckInit(ctx context.Context, fsys checkpoint.FS, c nn.Config, g *graph.Graph) (in event.ModelInit, err error) {
	snap, _, err := checkpoint.Load(ctx, fsys, c.Init)
	if err != nil {
		return in, err
	}
	var to []tensor.Named
	for _, e := range g.StateDict() {
		to = append(to, tensor.Named{Name: e.Name, Tensor: tensor.New(e.Spec.DType, e.Spec.Shape...)})
	}
	if in, _, err = fillInit(c, g, to, snap.Model, tensor.F32); err != nil {
		return in, checkpoint.Unusable(c.Init, err)
	}
	return in, nil
}

func fillInit(c nn.Config, g *graph.Graph, to, src []tensor.Named, float tensor.DType) (in event.ModelInit, notes []string, err error) {
	in.Path = c.Init
	if src, err = rename(src, c.InitRename); err != nil {
		return in, nil, err
	}
	if src, notes, err = nn.Adapt(c.Name, g, src); err != nil {
		return in, nil, err
	}
	if src, in.Skipped, err = skip(src, c.InitSkip); err != nil {
		return in, nil, err
	}
	var missing []string
	to, missing = without(to, src, func(name string) bool {
		return slices.Contains(in.Skipped, name) || slices.ContainsFunc(c.InitAllowMissing, func(p string) bool { return optim.MatchAny(p, []string{name}) })
	})
	in.New, in.Loaded = missing, len(to)
	filled, err := checkpoint.Fill(to, floatsAs(float, src))
	if err != nil {
		return in, nil, fmt.Errorf("%w\nfix: leave tensors of the file out with model.init_skip, map names with model.init_rename, or let tensors of the model start as without a file with model.init_allow_missing", err)
	}
	return in, append(notes, filled...), nil
}

// rename changes the first parts of names: each key is a name or that of a layer, and "" is the prefix of all
// names.
func rename(src []tensor.Named, to map[string]any) ([]tensor.Named, error) {
	if len(to) == 0 {
		return src, nil
	}
	from, used := make([]string, 0, len(to)), map[string]bool{}
	for key := range to {
		from = append(from, key)
	}
	slices.SortFunc(from, func(a, b string) int { return len(b) - len(a) }) // the longest that matches
	out := slices.Clone(src)
	for i, t := range src {
		name := checkpoint.Unwrapped(t.Name)
		for _, key := range from {
			rest, ok := strings.CutPrefix("."+name, strings.TrimSuffix("."+key, "."))
			if ok && (rest == "" || rest[0] == '.') {
				out[i].Name, used[key] = strings.Trim(to[key].(string)+rest, "."), true
				break
			}
		}
	}
	for _, key := range from {
		if !used[key] {
			return nil, usererr.Errorf("model.init_rename", "`trainctl ckpt inspect FILE` lists its tensors", "no tensor of the file, or layer with tensors, is named %q", key)
		}
	}
	return out, nil
}

// skip leaves out the tensors that match a pattern.
func skip(src []tensor.Named, patterns []string) (kept []tensor.Named, skipped []string, err error) {
	used := make([]bool, len(patterns))
	for _, t := range src {
		name, out := checkpoint.Unwrapped(t.Name), false
		for i, p := range patterns {
			if optim.MatchAny(p, []string{name}) {
				used[i], out = true, true
			}
		}
		if out {
			skipped = append(skipped, name)
		} else {
			kept = append(kept, t)
		}
	}
	if i := slices.Index(used, false); i >= 0 {
		return nil, nil, usererr.Errorf(fmt.Sprintf("model.init_skip[%d]", i), "`trainctl ckpt inspect FILE` lists its tensors", "no tensor of the file, or layer with tensors, is named %q", patterns[i])
	}
	return kept, skipped, nil
}

// without separates the model's tensors to fill from those that the file lacks and is allowed to lack.
func without(to, src []tensor.Named, may func(name string) bool) (rest []tensor.Named, missing []string) {
	have := map[string]bool{}
	for _, t := range src {
		have[checkpoint.Unwrapped(t.Name)] = true
	}
	for _, t := range to {
		if name := checkpoint.Unwrapped(t.Name); !have[name] && may(name) {
			missing = append(missing, t.Name)
		} else {
			rest = append(rest, t)
		}
	}
	return rest, missing
}
