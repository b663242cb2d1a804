package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/e2e/rig"
)

// startByHand starts the faulty plugin as a person does who wants to debug it, and returns its
// process and the entry that it prints.
func startByHand(t *testing.T, p *rig.Place) (*rig.Proc, pb.Reattach) {
	t.Helper()
	r := &rig.Proc{Cmd: exec.Command(filepath.Join(p.Dir, "faulty"), "--debug")}
	r.Cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	r.Cmd.Stdout, r.Cmd.Stderr = &r.Stdout, &r.Stderr
	r.Start(t)
	t.Cleanup(func() {
		_ = r.Cmd.Process.Signal(syscall.SIGTERM)
		_ = r.Cmd.Wait()
	})
	rig.Eventually(t, "the line to export", func() bool { return strings.HasSuffix(r.Stdout.String(), "\n") })
	var entries map[string]pb.Reattach
	text := strings.TrimSuffix(strings.TrimPrefix(r.Stdout.String(), "export TRAINCTL_REATTACH='"), "'\n")
	rig.Must(t, json.Unmarshal([]byte(text), &entries))
	return r, entries["faulty"]
}

func reattach(t *testing.T, entry any) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"faulty": entry})
	rig.Must(t, err)
	return pb.EnvReattach + "=" + string(text)
}

// Plugins of all kinds that a person has started serve one run after the other, with the bits of
// plugins that trainctl starts, and live on.
func TestAttachedPluginsTrain(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	p.AddFaultyPlugin(t)
	plugins := rig.Set(`backend.plugin="./faulty"`, `dataset.plugin="./faulty"`, "dataset.restarts=1", `precision.plugin="./faulty"`)
	want := p.Run(t, plugins...)
	first, a := startByHand(t, p)
	second, b := startByHand(t, p)
	p.Env = append(p.Env, reattach(t, []pb.Reattach{a, b}))
	for _, plane := range []string{"", pb.PlaneInline} {
		p.Env = append(p.Env, pb.EnvDataPlane+"="+plane)
		rig.EqualParams(t, "attached plugins, data plane "+plane, p.Run(t, plugins...), want)
	}
	for _, r := range []*rig.Proc{first, second} {
		for _, kind := range []string{"backend", "dataset", "precision"} {
			if text := fmt.Sprintf(" has attached the %s plugin faulty\n", kind); strings.Count(r.Stderr.String(), text) < 2 {
				t.Errorf("not twice %q:\n%s", text, r.Stderr.String())
			}
		}
		rig.Must(t, r.Cmd.Process.Signal(syscall.Signal(0)))
	}
	got := p.Train(t, append(plugins, rig.Set("train.max_steps=1")...)...).Expect(t, 0).
		Prints(t, fmt.Sprintf(`dataset plugin ./faulty is process %d of TRAINCTL_REATTACH["faulty"][0]`, a.Pid), "no timeout applies to this run")
	if n := strings.Count(got.Stderr, "no timeout applies to this run"); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, got.Stderr)
	}
	p.Trainctl(t, "plugins", "test", "./faulty", "--kind", "precision", "--quick").Expect(t, 0)
	p.Train(t, append(plugins, rig.Set("launch.nproc_per_node=3")...)...).Expect(t, 3).
		Prints(t, `TRAINCTL_REATTACH["faulty"] has 2 processes, and this host has at least 3 ranks`, "run fewer ranks (launch.nproc_per_node)")
	p.Train(t, rig.Set("train.max_steps=1")...).Expect(t, 0).
		Prints(t, "TRAINCTL_REATTACH names faulty, and the configuration uses no plugin of that name")
}

// A debugger may stop an attached plugin for longer than any deadline. Its end is the end of the run.
func TestAttachedPluginIsHeldAndEnds(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	p.AddFaultyPlugin(t)
	plugin, entry := startByHand(t, p)
	p.Env = append(p.Env, reattach(t, entry))
	r := p.StartEndless(t, "launch.nproc_per_node=1", `dataset.plugin="./faulty"`, "dataset.restarts=3", `dataset.timeout="1s"`, `backend.timeout="2s"`)
	rig.Signal(t, plugin.Cmd.Process.Pid, syscall.SIGSTOP)
	time.Sleep(4 * time.Second) // longer than hang timeout, dataset.timeout and backend.timeout
	rig.Signal(t, plugin.Cmd.Process.Pid, syscall.SIGCONT)
	held := p.StepsDone(1)
	p.WaitForSteps(t, r, 1, held+100)
	rig.Signal(t, plugin.Cmd.Process.Pid, syscall.SIGKILL)
	r.Wait(t).Expect(t, 5).Prints(t, fmt.Sprintf(`process %d of TRAINCTL_REATTACH["faulty"] has ended or closed the connection, and a plugin that was attached is not started again`, entry.Pid),
		"start it again, and export the line that it prints")
	_ = plugin.Cmd.Wait() // until then its number is in use

	wrong := entry
	wrong.ProtocolVersion = 9
	for value, message := range map[string]string{
		reattach(t, entry):           fmt.Sprintf(`process %d of TRAINCTL_REATTACH["faulty"] has ended`, entry.Pid),
		reattach(t, wrong):           `TRAINCTL_REATTACH["faulty"]: process ` + fmt.Sprint(entry.Pid) + " speaks version 9 of the plugin protocol",
		pb.EnvReattach + "={faulty":  "TRAINCTL_REATTACH is not a JSON object",
		pb.EnvReattach + `={"a":[]}`: `TRAINCTL_REATTACH["a"]: the list is empty`,
	} {
		p.Env = append(p.Env, value)
		p.Train(t, rig.Set(`dataset.plugin="./faulty"`)...).Expect(t, 3).Prints(t, message, "start the plugin with --debug and export the line that it prints")
	}
}
