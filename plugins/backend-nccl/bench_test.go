package nccl

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// benchProgram is this test binary as the rank of a bench on a fake machine.
func benchProgram() bench.Program {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return bench.Program{
		Exe:      exe,
		Builtins: []host.Builtin{{Kind: sdk.KindBackend, Name: "nccl", Plugin: sdk.Plugin{Backend: func() sdk.Backend { return onMachineAt() }}}},
		CUDA: func() (*driver.CUDA, error) {
			l, err := librariesAt()
			return l.cuda, err
		},
	}
}

func benchRank() int {
	if err := bench.Rank(context.Background(), benchProgram(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Both ways to run NCCL are measured, in worlds of one and, on a shared GPU, of
// two. The figures are the fake machine's; that they come at all is the test.
func TestBenchComparesPlacements(t *testing.T) {
	for _, c := range []struct {
		world, devices int
		options        map[string]any
	}{{1, 1, nil}, {2, 1, map[string]any{"allow_shared_device": true}}} {
		t.Run(fmt.Sprintf("%d ranks", c.world), func(t *testing.T) {
			m, path := servedAt(t, c.devices)
			m.Lack(driver.AttrPosixFDHandles) // descriptors of the machine's process are none of the rank's
			t.Setenv(envMachine, path)
			var got []bench.Result
			err := bench.AllReduce(t.Context(), benchProgram(), bench.Spec{
				Backend: "nccl", Options: c.options, World: c.world, Sizes: []int{4096}, DType: tensor.F32,
				Budget: time.Millisecond, Timeout: 20 * time.Second,
			}, func(r bench.Result) error { got = append(got, r); return nil })
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != 2 || got[0].Isolation != "inproc" || got[1].Isolation != "isolated" {
				t.Fatalf("got %+v", got)
			}
			if got[1].DeviceBytes <= got[0].DeviceBytes {
				t.Errorf("the plugin's context takes nothing: %d bytes, in process %d", got[1].DeviceBytes, got[0].DeviceBytes)
			}
			for _, r := range got {
				if r.P50 <= 0 || r.Calls == 0 || r.World != c.world {
					t.Errorf("got %+v", r)
				}
			}
		})
	}
}
