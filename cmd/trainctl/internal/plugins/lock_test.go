package plugins

import (
	"strings"
	"testing"
)

// A configuration's name with a space is quoted in the command that locks its plugins.
func TestUnlockedErrorQuotesFiles(t *testing.T) {
	e := &unlockedError{config: "my runs/it's.toml", plugins: []string{"./mine"}}
	if want := `run trainctl plugins lock 'my runs/it'\''s.toml'`; !strings.Contains(e.Error(), want) {
		t.Errorf("%v: want %s", e, want)
	}
}
