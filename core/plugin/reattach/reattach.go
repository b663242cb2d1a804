package reattach

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/sdk/pb"
)

// Set has the processes that may be attached, by the name of their plugin: one for each rank
// of this host.
type Set map[string][]pb.Reattach

// Process is the process of a rank's plugin.
type Process struct {
	pb.Reattach
	entry string // "TRAINCTL_REATTACH["mine"]"
}

// String names the process and the entry that it comes from.
func (p *Process) String() string { return fmt.Sprintf("process %d of %s", p.Pid, p.entry) }

// Help is how an entry that is wrong or out of date is replaced.
const Help = "start the plugin with --debug and export the line that it prints"

// FromEnv reads the variable; the set is nil if it is not set. The error is a *registry.Problem.
func FromEnv() (Set, error) { return Parse(os.Getenv(pb.EnvReattach)) }

// Parse reads the variable's value.
func Parse(text string) (Set, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, &registry.Problem{Text: fmt.Sprintf("%s is not a JSON object: %v", pb.EnvReattach, err), Help: Help, Err: err}
	}
	s := Set{}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		list, err := parseEntry(raw[name])
		for i := range list {
			if err == nil {
				err = check(&list[i])
			}
		}
		if err != nil {
			return nil, &registry.Problem{Text: fmt.Sprintf("%s: %v", entryOf(name), err), Help: Help, Err: err}
		}
		s[name] = list
	}
	return s, nil
}

// parseEntry reads an object, or a list of them.
func parseEntry(text json.RawMessage) (list []pb.Reattach, err error) {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		err = json.Unmarshal(text, &list)
		if err == nil && len(list) == 0 {
			err = errors.New("the list is empty")
		}
		return list, err
	}
	list = make([]pb.Reattach, 1)
	return list, json.Unmarshal(text, &list[0])
}

func check(p *pb.Reattach) error {
	switch {
	case p.Protocol != "grpc":
		return fmt.Errorf("its Protocol is %q, not \"grpc\"", p.Protocol)
	case p.ProtocolVersion != pb.ProtocolVersion:
		return fmt.Errorf("process %d speaks version %d of the plugin protocol (ProtocolVersion), and this trainctl speaks %d; build the plugin against this trainctl's core/sdk", p.Pid, p.ProtocolVersion, pb.ProtocolVersion)
	case p.Pid <= 0:
		return fmt.Errorf("its Pid is %d", p.Pid)
	case p.Addr.Network != "unix" || p.Addr.String == "":
		return fmt.Errorf("its Addr is %q of the network %q, not the path of a unix socket", p.Addr.String, p.Addr.Network)
	}
	return nil
}

func entryOf(name string) string { return fmt.Sprintf("%s[%q]", pb.EnvReattach, name) }

// Of returns the name under which the set has a plugin as given in the TOML: by that name, or a
// path whose last element is the name, with or without trainctl-KIND- and an extension.
func (s Set) Of(plugin string) (name string, ok bool) {
	if _, ok := s[plugin]; ok || !registry.IsPath(plugin) {
		return plugin, ok
	}
	base := filepath.Base(plugin)
	bare := strings.TrimSuffix(base, filepath.Ext(base))
	names := []string{base, bare}
	if p, ok := registry.Parse(base); ok {
		names = append(names, p.Name)
	}
	for _, name := range names {
		if _, ok := s[name]; ok {
			return name, true
		}
	}
	return "", false
}

// Process returns the process of a plugin, as given in the TOML, for the rank with this number on
// the host; nil if the set does not have the plugin. The error is a *registry.Problem.
func (s Set) Process(plugin string, rank int) (*Process, error) {
	name, ok := s.Of(plugin)
	if !ok {
		return nil, nil
	}
	list := s[name]
	if rank >= len(list) {
		return nil, &registry.Problem{
			Text: fmt.Sprintf("%s has %d %s, and this host has at least %d ranks", entryOf(name), len(list), plural(len(list), "process", "processes"), rank+1),
			Help: "start the plugin with --debug once for each rank and make their entries a list, or run fewer ranks (launch.nproc_per_node)",
		}
	}
	p := &Process{Reattach: list[rank], entry: entryOf(name)}
	if len(list) > 1 {
		p.entry += fmt.Sprintf("[%d]", rank)
	}
	return p, nil
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
