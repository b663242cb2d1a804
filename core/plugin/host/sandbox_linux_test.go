//go:build !portable

package host_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// A plugin in a sandbox that hangs says where, as any other does.
func TestHungPluginInASandbox(t *testing.T) {
	if v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); errno != 0 || v < 4 {
		t.Skip("this kernel has no Landlock of Linux 6.7 or newer: ", errno)
	}
	host.SetMargin(t, 100*time.Millisecond)
	exe, err := os.Executable()
	must(t, err)
	path := script(t, "exec "+exe+" plugin dataset fake")
	d := openFake(t, newHost(t, host.Options{}).WithSandboxes(map[string][]string{path: {exe}}), path, "deaf", 2*time.Second)
	must(t, d.Request(0, sdk.Train, 0, 1, []int64{7}))
	_, _, err = d.Wait(0)
	var failed *host.PluginError
	if !errors.As(err, &failed) || !errors.Is(err, host.ErrHung) {
		t.Fatalf("got %v", err)
	}
	if !slices.ContainsFunc(failed.Stack, func(f string) bool {
		return strings.Contains(f, "(*fakeDataset).Fill at core/plugin/host_test/host_test.go:")
	}) {
		t.Errorf("the stack does not say where it hangs: %q\n%v", failed.Stack, err)
	}
}
