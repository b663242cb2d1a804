package fetch

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/afero"
)

// ownerEnv makes this binary take the lock of a folder and keep it.
const ownerEnv = "FETCH_TEST_OWNER"

func ownLock(dir string) {
	_, _, err := Lock(context.Background(), afero.NewOsFs(), dir)
	fmt.Println("locked", err)
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the test goes away
}

func TestKilledOwnerLosesTheLock(t *testing.T) {
	fs, dir := afero.NewOsFs(), t.TempDir()
	owner := exec.CommandContext(t.Context(), os.Args[0])
	owner.Env = append(os.Environ(), ownerEnv+"="+dir)
	stdin, err := owner.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "locked <nil>\n" {
		t.Fatalf("the owner says %q, %v", line, err)
	}

	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = waitLock(over, fs, filepath.Join(dir, lockName))
	if want := "process " + strconv.Itoa(owner.Process.Pid) + " is downloading"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("while the owner lives: %v; want %q", err, want)
	}

	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	unlock, after := mustLock(t, fs, dir)
	defer unlock()
	if after {
		t.Error("a killed owner counts as one that finished")
	}
}
