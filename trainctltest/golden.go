package trainctltest

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// EnvUpdate is the environment variable that makes Golden write files instead of comparing with them.
const EnvUpdate = "TRAINCTL_UPDATE_GOLDEN"

// Golden compares losses with those in a file, a JSON list. Each may differ by tolerance relative to
// the larger one: processors with other instructions add in another order, and differences grow with
// every step. With TRAINCTL_UPDATE_GOLDEN=1 it writes the file.
func Golden(t testing.TB, losses []float64, file string, tolerance float64) {
	t.Helper()
	if os.Getenv(EnvUpdate) != "" {
		writeGolden(t, losses, file)
		return
	}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%v; fix: write it with %s=1 go test", err, EnvUpdate)
	}
	var want []float64
	if err == nil {
		err = json.Unmarshal(b, &want)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(losses) != len(want) {
		t.Errorf("%d losses, %s has %d; after a change that is meant, write it with %s=1 go test", len(losses), file, len(want), EnvUpdate)
		return
	}
	for i, got := range losses {
		if d := math.Abs(got - want[i]); !(d <= tolerance*max(math.Abs(got), math.Abs(want[i]))) { // also NaN
			t.Errorf("loss %.9g after step %d, %s has %.9g; after a change that is meant, write it with %s=1 go test", got, i+1, file, want[i], EnvUpdate)
			return
		}
	}
}

func writeGolden(t testing.TB, losses []float64, file string) {
	t.Helper()
	b, err := json.MarshalIndent(losses, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o755)
	}
	if err == nil {
		err = os.WriteFile(file, append(b, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
