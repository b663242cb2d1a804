package config

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/spf13/afero"
	"pgregory.net/rapid"
)

// TestResolvedProperty draws settings of every kind and holds that the
// resolved file loads to the same configuration, which sameAgain compares.
func TestResolvedProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := drawConfig(rt)
		c, err := loadText("drawn.toml", text)
		if err != nil {
			rt.Fatalf("the drawn file is not valid: %v\n%s", err, text)
		}
		sameAgain(rt, c)
	})
}

func drawConfig(t *rapid.T) string {
	var b strings.Builder
	name := rapid.StringMatching(`[a-z0-9 "#=\[\]äπ'-]{1,12}`).Draw(t, "name")
	fmt.Fprintf(&b, "[run]\nname = %s\nseed = %d\n", quote(name), rapid.IntRange(0, math.MaxInt64).Draw(t, "seed"))
	fmt.Fprintf(&b, "[launch]\nnproc_per_node = %s\n", rapid.SampledFrom([]string{"1", `"4"`, `"auto"`}).Draw(t, "nproc"))
	fmt.Fprintf(&b, "[backend]\ntimeout = %q\n", rapid.SampledFrom([]string{"1ms", "1h", "1h30m", "90s", "2h0m0.5s"}).Draw(t, "timeout"))
	fmt.Fprintf(&b, "[dataset]\nplugin = \"mnist\"\n[dataset.options]\nroot = %s\nmean = [%v]\nstd = { %s = [[1], [2.5, 3]] }\n",
		quote(rapid.String().Draw(t, "root")), drawFloat(t), join("", name))
	fmt.Fprintf(&b, "[train]\nper_rank_batch = %d\nmax_norm = %v\n", rapid.IntRange(1, 4096).Draw(t, "batch"), drawFloat(t))
	fmt.Fprintf(&b, "[optimizer]\nname = \"adamw\"\nlr = %v\nbetas = [%v, 0.5]\n", drawFloat(t), rapid.Float64Range(0, 0.999).Draw(t, "beta"))
	b.WriteString("[model]\nlayers = [\n")
	for i := range rapid.IntRange(1, 4).Draw(t, "layers") {
		b.WriteString("  " + drawLayer(t, fmt.Sprintf("l%d", i), 2) + ",\n")
	}
	b.WriteString("]\n")
	return b.String()
}

func drawFloat(t *rapid.T) string {
	return formatFloat(rapid.Float64Range(0, math.MaxFloat64).Draw(t, "float"))
}

func drawLayer(t *rapid.T, name string, depth int) string {
	if depth > 0 && rapid.Bool().Draw(t, "nest") {
		return fmt.Sprintf(`{ type = "residual", name = %q, layers = [%s], shortcut = [%s] }`,
			name, drawLayer(t, "a", depth-1), drawLayer(t, "b", depth-1))
	}
	return fmt.Sprintf(`{ type = "conv2d", name = %q, out_channels = 4, kernel_size = %s, bias = %v }`,
		name, rapid.SampledFrom([]string{"3", "[3, 5]"}).Draw(t, "kernel"), rapid.Bool().Draw(t, "bias"))
}

// The configurations that come with the program are valid.
func TestShippedConfigs(t *testing.T) {
	fs := afero.NewOsFs()
	files, err := afero.Glob(fs, "../../configs/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatal("no configurations found", err)
	}
	for _, f := range files {
		if _, err := Load(fs, f, LoadOptions{}); err != nil {
			t.Error(err)
		}
	}
}
