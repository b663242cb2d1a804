package checkpoint

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
)

// retain removes the checkpoints that [checkpoint] keep and keep_best do not select,
// and those that the newest one replaced. It first reads the newest one back from the
// file system and verifies it.
func (s *Store) retain(ctx context.Context, newest Manifest) error {
	step := newest.Step
	doomed, err := s.doomed(step, newest.NonFinite == "")
	if err != nil || len(doomed) == 0 {
		return err
	}
	if err := Verify(ctx, s.fs, filepath.Join(s.dir, dirName(step))); err != nil {
		return err
	}
	for _, n := range doomed {
		if err := s.remove(n); err != nil {
			return err
		}
	}
	return s.fs.SyncDir(s.dir)
}

// doomed lists the checkpoints to remove, by order of saving, not by step, because a run that was
// resumed from an earlier step saves lower steps later. Checkpoints that are not finite do not
// count for keep; only the newest of them is kept.
func (s *Store) doomed(step int, finite bool) ([]name, error) {
	names, err := s.list()
	if err != nil {
		return nil, err
	}
	var out []name
	type candidate struct {
		name
		save int
	}
	var others []candidate
	for _, n := range names {
		switch {
		case n.kind == replaced && n.step == step:
			out = append(out, n)
		case n.kind == complete && n.step != step:
			m, err := readManifest(s.fs, n.path(s.dir))
			if err != nil && !broken(err) {
				return nil, err
			}
			if m.NonFinite != "" && s.cfg.Keep > 0 {
				out = append(out, n)
				continue
			}
			others = append(others, candidate{n, m.Save}) // a broken one counts as the oldest
		}
	}
	if s.cfg.Keep == 0 {
		return out, nil
	}
	slices.SortFunc(others, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.save, a.save), cmp.Compare(b.step, a.step))
	})
	room := s.cfg.Keep
	if finite {
		room-- // the newest is one of them
	}
	for i, c := range others {
		best := s.cfg.KeepBest != "" && s.best != nil && s.best.Step == c.step
		if i >= room && !best {
			out = append(out, c.name)
		}
	}
	return out, nil
}

// remove renames the directory first, so that an interrupted removal leaves no
// directory that looks like a checkpoint.
func (s *Store) remove(n name) error {
	gone := filepath.Join(s.dir, n.base) + s.suffix("tmp")
	if err := s.fs.Rename(n.path(s.dir), gone); err != nil {
		return err
	}
	return s.fs.RemoveAll(gone)
}
