package importer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/onnx/source"
)

// pathsOf gives layers paths: those with a name in the list wish for it, the others are activations.
func pathsOf(wishes []string) []string {
	t := &translator{m: &source.Model{Nodes: make([]source.Node, 1)}}
	for _, w := range wishes {
		l := &layer{typ: "relu"}
		if w != "" {
			l = &layer{typ: "linear", params: []param{{"weight", &constant{title: w + ".weight"}}}}
		}
		t.layers = append(t.layers, l)
	}
	t.name()
	var paths []string
	for _, l := range t.layers {
		paths = append(paths, l.path)
	}
	return paths
}

func TestNames(t *testing.T) {
	for given, want := range map[string]string{
		"a.b,,a.c,":         "a.b,a.relu1,a.c,relu1",
		"a.b,c,a.d":         "a.b,c,a_d1", // a has been left
		"a,a.b":             "a,a_b1",     // a is a layer
		"a.b,a":             "a.b,a1",     // a is a container
		"relu1,,relu2,,":    "relu1,relu3,relu2,relu4,relu5",
		"a.relu1.x,,a.y,,,": "a.relu1.x,a.relu2,a.y,relu1,relu2,relu3",
		"a.b,a.b,a.b":       "a.b,a_b1,a_b2",
	} {
		if got := strings.Join(pathsOf(strings.Split(given, ",")), ","); got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}

// The work of naming a layer does not grow with the number of layers.
func TestNamingIsLinear(t *testing.T) {
	const n = 65_000
	block := func(i int) []string {
		return []string{fmt.Sprintf("net.block%d.fc", i), "", "", fmt.Sprintf("net.fc%d", i/8)}
	}
	perLayer := func(layers int) float64 {
		var wishes []string
		for i := range layers / 8 { // half of them without any name behind them
			wishes = append(wishes, block(i)...)
		}
		wishes = append(wishes, make([]string, layers-len(wishes))...)
		return testing.AllocsPerRun(1, func() { pathsOf(wishes) }) / float64(layers)
	}
	if few, many := perLayer(n/100), perLayer(n); many > 1.5*few {
		t.Errorf("%.1f allocations for each of %d layers, %.1f for each of %d", many, n, few, n/100)
	}
	all := pathsOf(slices.Repeat([]string{""}, n))
	if all[n-1] != fmt.Sprint("relu", n) {
		t.Errorf("the last of %d layers is %s", n, all[n-1])
	}
}
