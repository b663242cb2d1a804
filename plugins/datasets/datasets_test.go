package datasets

import (
	"slices"
	"testing"

	"github.com/spf13/afero"
)

func TestBuiltinsCarryTheirNames(t *testing.T) {
	var names []string
	for _, b := range Builtins(afero.NewMemMapFs()) {
		names = append(names, b.Name)
		if got := b.New().Info().Name; got != b.Name {
			t.Errorf("%q says that it is %q", b.Name, got)
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("%v is not in order", names)
	}
}
