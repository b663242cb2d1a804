package driver

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/trainctl/trainctl/core/cuda/dl"
)

// The tests of this file use libraries where this machine has them: in a
// toolkit or a Python environment. None of them needs a GPU.

func installed[T any](t *testing.T, open func(*dl.Finder) (*T, error)) *T {
	t.Helper()
	l, err := open(dl.System())
	if err != nil {
		t.Skipf("needs the installed library, though no GPU: %v", err)
	}
	return l
}

func TestCompile(t *testing.T) {
	n := installed(t, OpenNVRTC)
	var p Program
	source := CString(`extern "C" __global__ void add(float *a, float b) { a[threadIdx.x] += b; }`)
	if err := n.CreateProgram(&p, source, CString("add.cu"), 0, nil, nil); err != nil {
		t.Fatal(err)
	}
	defer n.DestroyProgram(&p)
	options := []*byte{CString("--gpu-architecture=sm_90")}
	if err := n.CompileProgram(p, 1, unsafe.SliceData(options)); err != nil {
		t.Fatal(err)
	}
	var size uintptr
	if err := n.GetCUBINSize(p, &size); err != nil || size == 0 {
		t.Fatalf("%d bytes, %v", size, err)
	}
	cubin := make([]byte, size)
	if err := n.GetCUBIN(p, unsafe.Pointer(&cubin[0])); err != nil || !strings.HasPrefix(string(cubin), "\x7fELF") {
		t.Fatalf("the cubin starts %q, %v", cubin[:4], err)
	}
}

func TestCompileErrorsHaveALog(t *testing.T) {
	n := installed(t, OpenNVRTC)
	var p Program
	if err := n.CreateProgram(&p, CString("__global__ void f() { nonsense; }"), CString("f.cu"), 0, nil, nil); err != nil {
		t.Fatal(err)
	}
	defer n.DestroyProgram(&p)
	if err := n.CompileProgram(p, 0, nil); !errors.Is(err, Compilation) {
		t.Fatalf("got %v", err)
	}
	var size uintptr
	if err := n.GetProgramLogSize(p, &size); err != nil {
		t.Fatal(err)
	}
	log := make([]byte, size)
	if err := n.GetProgramLog(p, &log[0]); err != nil || !strings.Contains(FromBuffer(log), "nonsense") {
		t.Errorf("log %q, %v", FromBuffer(log), err)
	}
}

func TestMatmulDescriptor(t *testing.T) {
	b := installed(t, OpenBlasLt)
	var d LtMatmulDesc
	if err := b.MatmulDescCreate(&d, Compute32F, R32F); err != nil {
		t.Fatal(err)
	}
	defer b.MatmulDescDestroy(d)
	set, got := EpilogueReLUBias, uint32(0)
	var written uintptr
	if err := b.MatmulDescSetAttribute(d, LtDescEpilogue, unsafe.Pointer(&set), 4); err != nil {
		t.Fatal(err)
	}
	if err := b.MatmulDescGetAttribute(d, LtDescEpilogue, unsafe.Pointer(&got), 4, &written); err != nil || got != set {
		t.Errorf("epilogue %d, %v", got, err)
	}
}

func TestDNNDescriptors(t *testing.T) {
	d := installed(t, OpenDNN)
	var x DNNTensor
	var w DNNFilter
	var conv DNNConvolution
	var n, c, h, width int32
	err := errors.Join(d.CreateTensor(&x), d.CreateFilter(&w), d.CreateConvolution(&conv))
	err = errors.Join(err, d.SetTensor4d(x, DNNFormatNHWC, DNNHalf, 4, 3, 32, 30), d.SetFilter4d(w, DNNHalf, DNNFormatNHWC, 16, 3, 5, 5))
	err = errors.Join(err, d.SetConvolution2d(conv, 2, 2, 2, 1, 1, 1, DNNCrossCorrelation, DNNFloat), d.GetConvolution2dOutputDim(conv, x, w, &n, &c, &h, &width))
	if err != nil {
		t.Fatal(err)
	}
	if got := [4]int32{n, c, h, width}; got != [4]int32{4, 16, 16, 30} {
		t.Errorf("output %v", got)
	}
	if err := d.SetTensor4d(x, DNNFormatNHWC, DNNHalf, -1, 3, 32, 30); !errors.Is(err, DNNBadParam) {
		t.Errorf("a negative batch: %v", err)
	}
}

func TestNCCLUniqueIDs(t *testing.T) {
	n := installed(t, OpenNCCL)
	var a, b NCCLUniqueID
	if err := errors.Join(n.GetUniqueID(&a), n.GetUniqueID(&b)); err != nil {
		t.Fatal(err)
	}
	if a == b || a == (NCCLUniqueID{}) {
		t.Errorf("ids %x and %x", a.Bytes[:16], b.Bytes[:16])
	}
}

// Layouts that C has: a wrong size would show only as damage on a GPU.
func TestStructSizes(t *testing.T) {
	for name, c := range map[string][2]uintptr{
		"CUmemAllocationProp": {unsafe.Sizeof(AllocationProp{}), 32}, "CUmemAccessDesc": {unsafe.Sizeof(AccessDesc{}), 12},
		"CUgraphExecUpdateResultInfo": {unsafe.Sizeof(GraphExecUpdateInfo{}), 24}, "CUipcMemHandle": {unsafe.Sizeof(IPCMemHandle{}), 64},
		"cublasLtMatmulHeuristicResult_t": {unsafe.Sizeof(LtHeuristicResult{}), 96}, "cudnnConvolutionFwdAlgoPerf_t": {unsafe.Sizeof(DNNAlgoPerf{}), 48},
		"ncclConfig_t": {unsafe.Sizeof(NCCLConfig{}), 48}, "ncclUniqueId": {unsafe.Sizeof(NCCLUniqueID{}), 128},
	} {
		if c[0] != c[1] {
			t.Errorf("%s has %d bytes, not %d", name, c[0], c[1])
		}
	}
}
