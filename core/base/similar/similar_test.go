package similar

import "testing"

func TestEdits(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"lr", "", 2}, {"", "lr", 2}, {"epochs", "epochs", 0}, {"epocs", "epochs", 1}, {"epohcs", "epochs", 1},
		{"kitten", "sitting", 3}, {"ca", "abc", 3},
	} {
		if got := Edits(c.a, c.b); got != c.want {
			t.Errorf("Edits(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"epochs", "max_steps", "momentum", "moments"}
	for word, want := range map[string]string{"epocs": "epochs", "momentun": "momentum", "steps": "", "zzz": ""} {
		if got := Nearest(word, names, max(1, len(word)/3)); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
	if got := Index("a", []string{"b", "c"}, 1); got != 0 {
		t.Errorf("of equals the first: %d", got)
	}
}
