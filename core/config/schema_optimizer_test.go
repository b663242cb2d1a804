package config

import (
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/optim"
)

// The schema offers the optimizers that are registered.
func TestSchemaListsEveryOptimizer(t *testing.T) {
	table := Schema()["properties"].(map[string]any)["optimizer"].(map[string]any)
	key := table["properties"].(map[string]any)["name"].(map[string]any)
	if names, _ := key["enum"].([]string); !slices.Equal(names, optim.Names()) {
		t.Errorf("optimizer.name takes %v in the schema, not %v", key["enum"], optim.Names())
	}
}
