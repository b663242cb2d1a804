package forecast

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// branched is a residual block with a projection, and one without.
func branched() *Report {
	layer := func(name string, inputs ...string) Layer {
		return Layer{Name: name, Type: "conv2d", Output: "[8]", Inputs: inputs}
	}
	return &Report{
		Name: "x", Dataset: Dataset{Input: "f32[8]"},
		Layers: []Layer{
			layer("a"), layer("b.1"), layer("b.2"), layer("b.skip", "a"), layer("b", "b.2", "b.skip"),
			layer("c.1"), layer("c.2"), layer("c", "c.2", "b"), layer("d", "input"),
		},
	}
}

func TestGraph(t *testing.T) {
	list := nodes(branched().Layers)
	var at [][2]int
	for _, n := range list {
		at = append(at, [2]int{n.row, n.column})
	}
	if d := cmp.Diff([][2]int{{0, 0}, {1, 0}, {2, 0}, {3, 0}, {2, 1}, {4, 0}, {5, 0}, {6, 0}, {7, 0}, {1, 1}}, at); d != "" {
		t.Errorf("rows and columns:\n%s", d)
	}
	lanes := map[[2]int]int{}
	for _, e := range edges(list) {
		if e.lane > 0 {
			lanes[[2]int{e.from, e.to}] = e.lane
		}
	}
	if d := cmp.Diff(map[[2]int]int{{5, 8}: 1}, lanes); d != "" {
		t.Errorf("lanes:\n%s", d)
	}
	// Edges that overlap have lanes of their own, and others share them.
	var ends []int
	got := []int{laneFrom(&ends, 0, 5), laneFrom(&ends, 2, 7), laneFrom(&ends, 5, 6), laneFrom(&ends, 7, 9)}
	if d := cmp.Diff([]int{1, 2, 3, 1}, got); d != "" {
		t.Error(d)
	}
}

// The drawing is well-formed, and names in it are text.
func TestSVG(t *testing.T) {
	r := branched()
	hostile := `<script>alert("&")</script>` + "\x1b" + strings.Repeat("long", 30)
	r.Layers[0].Name, r.Layers[3].Inputs = hostile, []string{hostile}
	r.Layers[0].Parameters = 1234
	r.Gradients = map[string]Gradients{hostile: {Bytes: 4096, Buckets: []int{0, 1}}}
	r.Buckets = []Bucket{{Bytes: 2048, Parameters: 1, First: "b.bias", Last: hostile}, {Index: 1, Bytes: 2048}}
	var b bytes.Buffer
	if err := r.SVG(&b); err != nil {
		t.Fatal(err)
	}
	count, text := map[string]int{}, ""
	for dec := xml.NewDecoder(&b); ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			count[token.Name.Local]++
		case xml.CharData:
			text += string(token) + "\n"
		}
	}
	if count["script"] != 0 || count["g"] != len(r.Layers)+1 || count["path"] != 1+len(r.Layers)+2 { // the marker's, and an input or two of each layer
		t.Errorf("elements: %v", count)
	}
	for _, want := range []string{`<script>alert("&")</script>`, "1,234 · 4 KiB · b0,1", "bucket 1: 2 KiB", "prefers-color-scheme: dark", "conv2d [8]"} {
		if !strings.Contains(text, want) {
			t.Errorf("the drawing lacks %q:\n%s", want, text)
		}
	}
}
