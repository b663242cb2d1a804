package python

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

func TestObserverConforms(t *testing.T) {
	inPython(t)
	sdktest.Observer(t, sdktest.ObserverOptions{
		New:     sdktest.ObserverPlugin(host.New(host.Options{}), "examples/observer/curve.py"),
		Options: map[string]any{"path": filepath.Join(t.TempDir(), "loss.csv")},
		Refused: map[string]map[string]any{"path": {"path": 7}},
	})
}

const tracker = "bin/trainctl-observer-wandb"

// withTracker starts the observer where it can import a package that stands for wandb, and returns
// the file that the package writes.
func withTracker(t *testing.T) (*host.Observer, string) {
	t.Helper()
	inPython(t)
	path := filepath.Join(t.TempDir(), "tracked.jsonl")
	t.Setenv("FAKETRACKER", path)
	t.Setenv("PYTHONPATH", os.Getenv("PYTHONPATH")+string(os.PathListSeparator)+"tests/modules")
	o, err := host.New(host.Options{Env: []string{"FAKETRACKER"}}).StartObserver(t.Context(), tracker)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close(context.Background()) })
	return o, path
}

// A run is a run of the tracker: metrics by step, without those that are not finite, the summary
// and the exit code at the end. A process that replaces another continues it.
func TestTrackerWrites(t *testing.T) {
	o, path := withTracker(t)
	options := sdk.Options{"package": "faketracker", "project": "digits"}
	req := sdk.ObserverRequest{Options: options, Name: "first", Config: map[string]any{"optimizer.lr": 0.5}, Resume: "run7"}
	if err := o.Open(t.Context(), req); err != nil || o.Resume() != "run7" {
		t.Fatal(err, o.Resume())
	}
	lines := [][]byte{
		[]byte(`{"event":"step","step":1,"loss_mean":0.25,"lr":0.1}`), []byte(`{"event":"step","step":2,"loss_mean":null,"lr":0.1}`),
		[]byte(`{"event":"eval","step":2,"loss":0.5,"accuracy":0.75}`), []byte(`{"event":"run_done","status":"failed","exit_code":3}`),
	}
	if err := o.Observe(t.Context(), lines, 0, []byte(`{"status":"failed","steps":2,"params_sha256":[]}`)); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	want := `{"project": "digits", "name": "first", "lr": 0.5, "id": "run7", "resume": "allow"}
{"step": 1, "train/loss": 0.25, "train/lr": 0.1}
{"step": 2, "train/lr": 0.1}
{"step": 2, "eval/loss": 0.5, "eval/accuracy": 0.75}
{"summary": {"status": "failed", "steps": 2, "params_sha256": []}}
{"exit_code": 3}
`
	if err != nil || string(got) != want {
		t.Errorf("%v, written:\n%swant:\n%s", err, got, want)
	}
}

// Without the package, the observer says what to install.
func TestTrackerIsNotInstalled(t *testing.T) {
	o, _ := withTracker(t)
	err := o.Open(t.Context(), sdk.ObserverRequest{Options: sdk.Options{"package": "no_such_tracker"}})
	var reported *sdk.Error
	if !errors.As(err, &reported) || reported.Code != sdk.CodeUnavailable || !strings.Contains(err.Error(), "pip install no_such_tracker") {
		t.Errorf("got %v", err)
	}
}
