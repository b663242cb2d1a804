package python

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

// byHand is a plugin that a person has started.
type byHand struct {
	in    io.Writer
	lines *bufio.Scanner
}

// startByHand starts Python with these arguments, waits for the line to export, and exports it.
func startByHand(t *testing.T, args ...string) *byHand {
	t.Helper()
	cmd := exec.Command("python3", append([]string{"-u"}, args...)...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "TMPDIR="+t.TempDir()), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // pdb would ask what to do
		_ = cmd.Wait()
	})
	p := &byHand{in: in, lines: bufio.NewScanner(out)}
	line := p.until(t, "export "+pb.EnvReattach+"='")
	t.Setenv(pb.EnvReattach, strings.TrimSuffix(strings.TrimPrefix(line, "export "+pb.EnvReattach+"='"), "'"))
	return p
}

// until reads lines up to one that contains a text.
func (p *byHand) until(t *testing.T, text string) string {
	t.Helper()
	var all []string
	for p.lines.Scan() {
		all = append(all, p.lines.Text())
		if strings.Contains(p.lines.Text(), text) {
			return p.lines.Text()
		}
	}
	t.Fatalf("no line contains %q:\n%s", text, strings.Join(all, "\n"))
	return ""
}

// A data set that a person has started passes the suite, one instance after the other.
func TestAttachedDatasetConforms(t *testing.T) {
	inPython(t)
	startByHand(t, "examples/dataset/spirals.py", "--debug")
	sdktest.Dataset(t, sdktest.DatasetOptions{
		New:     sdktest.DatasetPlugin(host.New(host.Options{}), "examples/dataset/spirals.py"),
		Samples: 200,
	})
	_, err := host.New(host.Options{}).StartBackend(t.Context(), "spirals")
	if want := "refuses: this plugin is not a backend; it serves dataset"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// pdb, started as docs/plugins.md says, stops at a breakpoint in batch, and the host waits for it.
func TestPDBStopsInBatch(t *testing.T) {
	inPython(t)
	const script, call = "examples/dataset/spirals.py", "        out.take("
	docs, err := os.ReadFile("../../docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "python3 -m pdb ./mydata.py --debug"; !strings.Contains(string(docs), want) {
		t.Errorf("docs/plugins.md does not say %q", want)
	}
	code, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	above, _, found := strings.Cut(string(code), call)
	if !found {
		t.Fatalf("%s has no %q", script, call)
	}
	at := fmt.Sprintf("%s:%d", script, strings.Count(above, "\n")+1)
	p := startByHand(t, "-m", "pdb", "-c", "break "+at, "-c", "continue", script, "--debug")
	d, err := host.New(host.Options{}).StartDataset(t.Context(), script)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close(context.Background())
	if _, err := d.Open(t.Context(), sdk.DatasetRequest{Options: sdk.Options{"turns": 1.5, "noise": 0.02}, WorldSize: 1, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	if err := d.Prepare(1, 4); err != nil {
		t.Fatal(err)
	}
	if err := d.Request(0, sdk.Train, 0, 1, []int64{3, 1, 2}); err != nil {
		t.Fatal(err)
	}
	p.until(t, fmt.Sprintf("spirals.py(%d)batch()", strings.Count(above, "\n")+1))
	if _, err := io.WriteString(p.in, "p indices.tolist()\ncontinue\n"); err != nil {
		t.Fatal(err)
	}
	p.until(t, "[3, 1, 2]")
	if input, _, err := d.Wait(0); err != nil || len(input) != 3*2*4 {
		t.Errorf("%d bytes, %v", len(input), err)
	}
}
