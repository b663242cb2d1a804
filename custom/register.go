package custom

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/trainctl/trainctl/core/base/pattern"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
)

// Number is what functions compute in.
type Number interface{ float32 | float64 }

// Definition is a [Layer], a [Loss] or an [Optimizer].
type Definition interface{ register() error }

// registering makes a check for a name and what follows it one step.
var registering sync.Mutex

// Register adds definitions to the process, for all runs in it: call it once, before the first run that uses them, and in
// ranks that are processes too, where main runs again up to trainctl.Run. It may be called while others train. The error
// lists all definitions that cannot be added, such as those with a name that exists already; the others are added.
func Register(list ...Definition) error {
	registering.Lock()
	defer registering.Unlock()
	var all []error
	for _, d := range list {
		all = append(all, d.register())
	}
	return errors.Join(all...)
}

var names = pattern.Lazy{Expr: `^[a-z][a-z0-9_]*$`}

// enter checks what all definitions have, and adds one. kind is "layer", "loss" or "optimizer"; functions says which of
// those that it needs are given.
func enter(kind, name string, keys []Key, functions map[string]bool, add func(keys []op.Key) error) error {
	if !names.Get().MatchString(name) {
		return fmt.Errorf("custom: the %s is named %q; fix: use lower-case letters, digits and _, beginning with a letter", kind, name)
	}
	for _, f := range slices.Sorted(maps.Keys(functions)) {
		if !functions[f] {
			return fmt.Errorf("custom: the %s %s has no %s; fix: set it, one generic function serves float32 and float64", kind, name, f)
		}
	}
	known, err := engineKeys(keys)
	if err == nil {
		err = add(known)
	}
	if err != nil {
		return fmt.Errorf("custom: register the %s %s: %w", kind, name, err)
	}
	return nil
}

// taken reports keys that are fields of a table already.
func taken(keys []Key, table reflect.Type) error {
	for i := range table.NumField() {
		field, _, _ := strings.Cut(table.Field(i).Tag.Get("toml"), ",")
		for _, k := range keys {
			if k.Name == field {
				return fmt.Errorf("the key %s has a meaning in this table already; fix: choose another name", k.Name)
			}
		}
	}
	return nil
}

// takenByModels reports keys that named models have.
func takenByModels(keys []Key) error {
	for _, model := range nn.Names() {
		for _, own := range nn.Keys(model) {
			if slices.ContainsFunc(keys, func(k Key) bool { return k.Name == own.Name }) {
				return fmt.Errorf("%s is a key of the model %s; fix: choose another name", own.Name, model)
			}
		}
	}
	return nil
}
