//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/trainctl/trainctl/e2e/rig"
)

// diagnosis is what config check --json prints.
type diagnosis struct {
	Valid       bool `json:"valid"`
	Diagnostics []struct {
		Key     string `json:"key"`
		Summary string `json:"summary"`
		Help    string `json:"help"`
		Line    int    `json:"line"`
		Column  int    `json:"column"`
		Snippet string `json:"snippet"`
	} `json:"diagnostics"`
}

// checked returns what config check prints for a file.
func (p *place) checked(t rig.TB, path string) (d diagnosis, r rig.Result) {
	t.Helper()
	r = p.Trainctl(t, "config", "check", "--json", path)
	if err := json.Unmarshal([]byte(r.Stdout), &d); err != nil {
		t.Errorf("config check printed no JSON: %v\n%s%s", err, r.Stdout, r.Stderr)
	}
	return d, r
}

func mutatedTOML(t *trial) {
	p := newPlace(t)
	const mutants = 200
	rnd := rand.New(rand.NewPCG(34, 0))
	path := filepath.Join(p.Dir, "mutant.toml")
	refused := 0
	for n := range mutants {
		text := mutate(rnd, []byte(rig.BaseConfig))
		rig.Must(t, os.WriteFile(path, text, 0o644))
		d, r := p.checked(t, path)
		if r.Code != 0 && r.Code != 2 && r.Code != 3 || strings.Contains(r.Stderr, "goroutine ") {
			t.Fatalf("mutant %d: exit code %d:\n%s\n%s", n, r.Code, r.Stderr, text)
		}
		if r.Code != 0 {
			refused++
		}
		lines := strings.Split(string(text), "\n")
		for _, e := range d.Diagnostics {
			if e.Line < 0 || e.Line > len(lines) || e.Line > 0 && e.Column > len([]rune(lines[e.Line-1]))+1 {
				t.Fatalf("mutant %d: %q is said to be at %d:%d of %d lines:\n%s", n, e.Summary, e.Line, e.Column, len(lines), text)
			}
		}
	}
	t.saw("%d of %d mutants refused, no panic, all positions inside", refused, mutants)
}

// mutate changes a few bytes or lines.
func mutate(rnd *rand.Rand, text []byte) []byte {
	for range 1 + rnd.IntN(2) {
		at := rnd.IntN(len(text))
		switch rnd.IntN(6) {
		case 0:
			text[at] = byte(rnd.IntN(256))
		case 1:
			text = append(text[:at], text[min(len(text), at+rnd.IntN(20)):]...)
		case 2:
			piece := text[at:min(len(text), at+rnd.IntN(60))]
			text = append(text, piece...)
		case 3:
			text = append(text[:at], append([]byte([]string{"\"", "[[", "]", "=", "\n", "'''", "{", "\x00", "é", "1e999", "-", "# "}[rnd.IntN(12)]), text[at:]...)...)
		case 4:
			lines := strings.Split(string(text), "\n")
			i, j := rnd.IntN(len(lines)), rnd.IntN(len(lines))
			lines[i], lines[j] = lines[j], lines[i]
			text = []byte(strings.Join(lines, "\n"))
		case 5:
			text = text[:max(1, at)]
		}
	}
	return text
}

func misspeltKeys(t *trial) {
	p := newPlace(t)
	path := filepath.Join(p.Dir, "misspelt.toml")
	n := 0
	for _, c := range []struct{ right, wrong, help string }{
		{"epochs = 2", "epocs = 2", "epochs"},
		{"epochs = 2", "Epochs = 2", "epochs"},
		{"[train]", "[trian]", "train"},
		{"[train]", "[Train]", "train"},
		{"per_rank_batch = 8", "batch_size = 8", "per_rank_batch"},
		{"lr = 0.1", "learning_rate = 0.1", "lr"},
		{"lr = 0.1", "lr = 0.1\nmomentun = 0.9", "momentum"},
		{"nproc_per_node = 2", "nproc_per_nod = 2", "nproc_per_node"},
		{"nproc_per_node = 2", "nproc-per-node = 2", "nproc_per_node"},
		{"out_features = 4", "out_feature = 4", "out_features"},
		{`type = "linear"`, `type = "Linear"`, "linear"},
		{"classes = 4", "clases = 4", "classes"},
		{`name = "sgd"`, `name = "SGD"`, "sgd"},
	} {
		text := strings.Replace(rig.BaseConfig, c.right, c.wrong, 1)
		rig.Must(t, os.WriteFile(path, []byte(text), 0o644))
		line := 1 + strings.Count(text[:strings.Index(text, c.wrong)], "\n")
		line += strings.Count(c.wrong, "\n")
		d, r := p.checked(t, path)
		if r.Code != 2 {
			t.Errorf("%s: exit code %d", c.wrong, r.Code)
		}
		found := false
		for _, e := range d.Diagnostics {
			found = found || e.Line == line && e.Column > 0 && strings.Contains(e.Help+e.Summary, c.help)
		}
		if !found {
			t.Errorf("%s: nothing at line %d suggests %q: %s", c.wrong, line, c.help, fmt.Sprint(d.Diagnostics))
		}
		n++
	}
	t.saw("%d misspellings, each exit 2 at its place with the right word", n)
}
