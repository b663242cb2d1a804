package examples

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

// The example backend is a separate module: the go command builds and tests it in its
// folder, then it runs as a plugin process by its path.
func TestBackendModule(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "trainctl-plugin-star")
	goInBackend(t, "build", "-buildvcs=false", "-o", bin, ".")
	goInBackend(t, "test", "./...")
	sdktest.Backend(t, sdktest.BackendOptions{
		New:       sdktest.BackendProcess(host.New(host.Options{}), bin),
		Worlds:    []int{1, 2, 3},
		Counts:    []int{0, 1, 100, 65537},
		NoPrivate: true,
	})
}

func goInBackend(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = "backend"
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
}
