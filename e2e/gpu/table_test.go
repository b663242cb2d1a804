//go:build linux

package gpu

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

// testBinaries replace the suites that gputest/build.sh compiles, with the output of
// Go's tests.
const testBinaries = `#!/bin/bash
case "$*" in
*Kernels*) printf '=== RUN TestKernelsCompile\n--- PASS: TestKernelsCompile (0.1s)\nPASS\n' ;;
*Plans*) printf -- '--- SKIP: TestPlansForAnH100 (0.0s)\n    installed_test.go:24: needs installed cuDNN\nPASS\n' ;;
*Conformance*) printf -- '--- FAIL: TestConformance (0.1s)\n    --- PASS: TestConformance/a (0.0s)\n    --- FAIL: TestConformance/b (0.0s)\nFAIL\n'; exit 1 ;;
*isolated*) printf -- '--- PASS: TestRealGPUs (0.1s)\n    --- PASS: TestRealGPUs/isolated (0.0s)\n        --- PASS: TestRealGPUs/isolated/x (0.0s)\n        --- PASS: TestRealGPUs/isolated/y (0.0s)\nPASS\n' ;;
*shared*) printf -- '--- PASS: TestRealGPUs (0.1s)\n    --- SKIP: TestRealGPUs/shared (0.0s)\n        real_test.go:44: NCCL 2.28.9 cannot serve two\nPASS\n' ;;
*bench*) printf 'BenchmarkStep/convnet_b100_f32-16 \t 100\t 30000000 ns/op\t 3300.4 samples/s\nPASS\n' ;;
esac
`

// gpuTable runs gputest/run.sh in a folder like the one that it unpacks, with the
// real program on fake GPUs and python saying what a comparison would.
func gpuTable(t *testing.T, p *rig.Place, python string, parts ...string) (table, all string, code int) {
	t.Helper()
	dir, out := filepath.Join(p.Dir, "gputest"), filepath.Join(p.Dir, "out")
	write := func(name, text string, mode os.FileMode) {
		rig.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		rig.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), mode))
	}
	files, err := filepath.Glob("../../gputest/*")
	rig.Must(t, err)
	for _, f := range files {
		b, err := os.ReadFile(f)
		rig.Must(t, err)
		write(filepath.Base(f), string(b), 0o755)
	}
	for _, name := range []string{"cuda", "kernels", "ops"} {
		write("cuda/"+name+".test", testBinaries, 0o755)
	}
	write("nccl/nccl.test", testBinaries, 0o755)
	write("python", "#!/bin/bash\n"+python, 0o755)
	write("version", "0123456", 0o644)
	rig.Must(t, os.Symlink(p.Exe, filepath.Join(dir, "trainctl")))
	r := p.Command()
	r.Cmd.Path, r.Cmd.Args = "/bin/bash", append([]string{"bash", filepath.Join(dir, "run.sh")}, parts...)
	r.Cmd.Env = append(r.Cmd.Env, "GPUTEST_SMALL=1", "GPUTEST_OUT="+out, "PYTHON="+filepath.Join(dir, "python"), "GPUTEST_CACHE="+os.Getenv("XDG_CACHE_HOME"))
	res := r.Start(t).Wait(t)
	b, err := os.ReadFile(filepath.Join(out, "table.txt"))
	rig.Must(t, err)
	if string(b) != res.Stdout {
		t.Errorf("table.txt and what is printed differ:\n%s\n%s", b, res.Stdout)
	}
	return res.Stdout, res.Stdout + res.Stderr, res.Code
}

// lines asserts that a table has lines of these patterns, in order.
func lines(t *testing.T, table string, patterns ...string) {
	t.Helper()
	rest := table
	for _, want := range patterns {
		at := regexp.MustCompile("(?m)^" + want + "$").FindStringIndex(rest)
		if at == nil {
			t.Errorf("no line %q in what is left of the table:\n%s", want, rest)
			continue
		}
		rest = rest[at[1]:]
	}
}

// Every line of the table that a GPU machine prints has the result of its command.
func TestGPUTable(t *testing.T) {
	t.Parallel()
	p := fakeGPUs(t, 1)
	table, all, code := gpuTable(t, p, "echo 50\n")
	if code != 1 {
		t.Errorf("exit code %d with a line that failed:\n%s", code, all)
	}
	lines(t, table,
		`trainctl 0123456, 20\d\d-.*`, ` *ok +CUDA driver +12\.0.*`, ` *ok +NCCL +2\.30\.4.*`, ` *ok +device 0 +a fake GPU.*`, `verdict +measure +target +result`,
		`failed +device conformance +--- FAIL: TestConformance/b.*`,
		`ok +ConvNet b100 +[\d.]+ samples/s`, `ok +ConvNet b100, PyTorch +50 samples/s`, `(ok|below) +ConvNet b100, ratio +>= 5 +[\d.]+`,
		`ok +ResNet-50 224 bf16 b256 +[\d.]+ samples/s`, `ok +ResNet-50 224 bf16 b256, PyTorch +50 samples/s`, `(ok|below) +ResNet-50 224 bf16 b256, ratio +>= 1 +[\d.]+`,
		`ok +MNIST, accuracy +>= 0 +[\d.]+`,
		`ok +NCCL conformance +2 passed`, `skipped +NCCL conformance, 2 on a GPU +NCCL 2.28.9 cannot serve two`,
		`ok +all-reduce 1 MiB, 1 rank, plugin +\d+ µs, 300 MiB of device memory`, `ok +all-reduce 1 MiB, 1 rank, in process +\d+ µs, 0 MiB.*`, `(ok|below) +all-reduce 1 MiB, 1 rank, ratio +>= 0.95 +[\d.]+`,
		`ok +all-reduce 1 MiB, 2 on a GPU, plugin +\d+ µs, 6\d\d MiB of device memory`, `ok +all-reduce 1 MiB, 2 on a GPU, in process +\d+ µs.*`, `(ok|below) +all-reduce 1 MiB, 2 on a GPU, ratio .*`,
		`ok +MNIST, 2 ranks on a GPU, TCP .*`, `ok +MNIST over NCCL, isolated .*`, `ok +MNIST over NCCL, in process .*`, `ok +MNIST over NCCL, 2 on a GPU .*`,
		`ok +steps alone, convnet_b100_f32-16 +3300 samples/s`,
		`ok +kernels compile +1 passed`, `skipped +cuDNN plans for an H100 +needs installed cuDNN`,
	)
	files, err := filepath.Glob(filepath.Join(p.Dir, "out", "*"))
	rig.Must(t, err)
	if len(files) > 8 {
		t.Errorf("%d files of results, of which 8 come back at most", len(files))
	}
}

// What cannot run has the reason in the table.
func TestGPUTableOfWhatIsMissing(t *testing.T) {
	t.Parallel()
	none := rig.NewPlace(t)
	none.Env = append(none.Env, "TRAINCTL_LIBCUDA=/nonexistent/libcuda.so.1")
	table, all, code := gpuTable(t, none, "exit 1\n", "mnist", "steps")
	if code != 0 {
		t.Errorf("exit code %d where nothing could run:\n%s", code, all)
	}
	lines(t, table, `skipped +mnist +no GPU: CUDA driver: .*`, `skipped +steps +no GPU: .*`)

	p := fakeGPUs(t, 1)
	p.Env = append(p.Env, "NCCL_FAKE_VERSION=22809")
	table, all, _ = gpuTable(t, p, "echo torch 2.11 sees no GPU >&2; exit 1\n", "convnet", "allreduce")
	lines(t, table, `ok +ConvNet b100 +[\d.]+ samples/s`, `skipped +ConvNet b100, PyTorch +torch 2.11 sees no GPU`,
		`(ok|below) +all-reduce 1 MiB, 1 rank, ratio .*`, `skipped +all-reduce 1 MiB, 2 on a GPU +.*install 2.30 or later.*`)
	if strings.Contains(table, "failed") {
		t.Errorf("something failed:\n%s", all)
	}

	p = fakeGPUs(t, 1)
	p.Env = append(p.Env, "CUDA_FAKE_TROUBLE=700 gemm")
	table, all, code = gpuTable(t, p, "echo 50\n", "convnet")
	if code != 1 {
		t.Errorf("exit code %d where our side failed:\n%s", code, all)
	}
	lines(t, table, `failed +ConvNet b100 +.*`, `ok +ConvNet b100, PyTorch +50 samples/s`)

	p = fakeGPUs(t, 1)
	p.Env = append(p.Env, "GPUTEST_SECONDS=1")
	table, _, _ = gpuTable(t, p, "", "mnist", "kernels")
	lines(t, table, `skipped +MNIST, accuracy +no time left of 1 s: give run.sh this part alone, mnist`, `skipped +kernels compile +no time left .*`)
}
