//go:build linux

package e2e

import (
	"testing"

	"github.com/trainctl/trainctl/core/cuda/cudatest"
)

func onNCCL(isolation string, more ...string) []string {
	return set(append([]string{`run.device="cuda"`, `run.deterministic=false`, `backend.plugin="nccl"`, `backend.options.isolation="` + isolation + `"`}, more...)...)
}

func TestNCCLFollowsTCP(t *testing.T) {
	p := fakeGPUs(t, 2)
	cudatest.NCCL(t)
	tcp := p.run(t, set(`run.device="cuda"`, "train.max_steps=6")...)
	for _, c := range []string{"isolated", "inproc"} {
		nccl := p.run(t, onNCCL(c, "train.max_steps=6")...)
		equalBits(t, c, nccl.losses(), tcp.losses())
		if a, b := nccl.params(t), tcp.params(t); a != b {
			t.Errorf("%s: %s, %s", c, a, b)
		}
	}
}
