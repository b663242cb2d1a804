package rundir

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/durable"
	"github.com/trainctl/trainctl/core/report/event"
)

// Labels are tags and a note that people give a run: labels.json in its directory.
type Labels struct {
	Tags []string `json:"tags,omitempty"`
	Note string   `json:"note,omitempty"`
}

func labelsFile(dir event.RunDir) string { return filepath.Join(dir.Path, "labels.json") }

// ReadLabels returns no labels for a run without any.
func ReadLabels(fsys afero.Fs, dir event.RunDir) (l Labels, err error) {
	b, err := afero.ReadFile(fsys, labelsFile(dir))
	if absent(err) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &l)
	}
	if err != nil {
		err = fmt.Errorf("labels of %s: %w", dir.Path, err)
	}
	return l, err
}

// WriteLabels replaces the labels of a run. Tags are trimmed, sorted and made unique.
func WriteLabels(fsys afero.Fs, dir event.RunDir, l Labels) error {
	if !dir.IsRun() {
		return errNoRun(dir)
	}
	var tags []string
	for _, t := range l.Tags {
		if t = strings.TrimSpace(t); t != "" {
			tags = append(tags, t)
		}
	}
	slices.Sort(tags)
	l.Tags = slices.Compact(tags)
	b, err := json.MarshalIndent(l, "", "  ")
	if err == nil {
		err = durable.Replace(fsys, labelsFile(dir), append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("labels of %s: %w", dir.Path, err)
	}
	return nil
}
