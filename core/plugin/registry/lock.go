package registry

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/sdk"
)

// LockName is the name of the file, beside a configuration, with the versions and sums of
// the plugins that it names.
const LockName = "trainctl.lock"

// lockSchema is the version of the file's format.
const lockSchema = 1

// Lock is the content of a lock file.
type Lock struct {
	Schema  int      `json:"schema"`
	Plugins []Locked `json:"plugins"`
}

// Locked is a plugin that may be used, and no other of its kind and name.
type Locked struct {
	Kind    sdk.Kind          `json:"kind"`
	Name    string            `json:"name"`
	Version string            `json:"version,omitempty"`
	Source  string            `json:"source,omitempty"` // from where it was installed
	Sums    map[string]string `json:"sums"`             // [Plugin.TreeSum] by platform
}

// Platform is this machine's platform, as in "linux/amd64".
func Platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// ParseLock parses a lock file.
func ParseLock(text []byte) (*Lock, error) {
	l := new(Lock)
	if err := json.Unmarshal(text, l); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; write it again with trainctl plugins lock CONFIG", LockName, err)
	}
	if l.Schema != lockSchema {
		return nil, fmt.Errorf("%s has schema %d, and this trainctl knows %d; use the trainctl that wrote it", LockName, l.Schema, lockSchema)
	}
	for _, p := range l.Plugins {
		for platform, sum := range p.Sums {
			if _, err := ParseSum(sum); err != nil {
				return nil, fmt.Errorf("%s: %s plugin %s on %s: %w", LockName, p.Kind, p.Name, platform, err)
			}
		}
	}
	return l, nil
}

// Text returns the file's content: plugins are ordered, so that differences are small.
func (l *Lock) Text() ([]byte, error) {
	l.Schema = lockSchema
	slices.SortFunc(l.Plugins, func(a, b Locked) int {
		return strings.Compare(string(a.Kind)+" "+a.Name, string(b.Kind)+" "+b.Name)
	})
	text, err := json.MarshalIndent(l, "", "  ")
	return append(text, '\n'), err
}

// Of returns the entry of a plugin; nil if there is none.
func (l *Lock) Of(kind sdk.Kind, name string) *Locked {
	if l == nil {
		return nil
	}
	for i := range l.Plugins {
		if p := &l.Plugins[i]; p.Kind == kind && p.Name == name {
			return p
		}
	}
	return nil
}

// Set adds or replaces an entry. Sums of other platforms remain if the version is the same.
func (l *Lock) Set(p Locked) {
	old := l.Of(p.Kind, p.Name)
	switch {
	case old == nil:
		l.Plugins = append(l.Plugins, p)
		return
	case old.Version == p.Version:
		sums := maps.Clone(old.Sums)
		maps.Copy(sums, p.Sums)
		p.Sums = sums
	}
	*old = p
}

// Sum returns the sum that a plugin must have on a platform. The error is a *Problem.
func (p *Locked) Sum(platform string) (string, error) {
	if sum := p.Sums[platform]; sum != "" {
		return strings.ToLower(sum), nil
	}
	return "", &Problem{
		Text: fmt.Sprintf("%s has no sum of it for %s, only for %s", LockName, platform, strings.Join(slices.Sorted(maps.Keys(p.Sums)), ", ")),
		Help: "run trainctl plugins lock CONFIG on such a machine as well, which adds it",
	}
}
