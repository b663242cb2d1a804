package driver

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/trainctl/trainctl/core/base/dl"
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
	set := EpilogueReLUAux | EpilogueBias
	if err := b.MatmulDescSetAttribute(d, LtDescEpilogue, unsafe.Pointer(&set), 4); err != nil {
		t.Error(err)
	}
	if err := b.MatmulDescSetAttribute(d, LtDescEpilogue, unsafe.Pointer(&set), 3); err == nil {
		t.Error("an epilogue of three bytes is taken")
	}
}

func TestDNNDescriptors(t *testing.T) {
	d := installed(t, OpenDNN)
	tensor := func(rows int64) error {
		var x BackendDescriptor
		if err := d.BackendCreate(DNNTensorDescriptor, &x); err != nil {
			return err
		}
		defer d.BackendDestroy(x)
		kind, id, align, dims, strides := DNNHalf, int64(1), int64(16), []int64{4, 3, rows, 30}, []int64{3 * 32 * 30, 1, 90, 3}
		return errors.Join(d.BackendSetAttribute(x, DNNTensorType, DNNTypeDataType, 1, unsafe.Pointer(&kind)), d.BackendSetAttribute(x, DNNTensorID, DNNTypeInt64, 1, unsafe.Pointer(&id)),
			d.BackendSetAttribute(x, DNNTensorAlignment, DNNTypeInt64, 1, unsafe.Pointer(&align)), d.BackendSetAttribute(x, DNNTensorDimensions, DNNTypeInt64, 4, unsafe.Pointer(&dims[0])),
			d.BackendSetAttribute(x, DNNTensorStrides, DNNTypeInt64, 4, unsafe.Pointer(&strides[0])), d.BackendFinalize(x))
	}
	if err := tensor(32); err != nil {
		t.Error(err)
	}
	if err := tensor(-1); !errors.Is(err, DNNBadParam) {
		t.Errorf("a negative height: %v", err)
	}
}

// A driver has every function, also where it shows no device.
func TestDriver(t *testing.T) {
	c := installed(t, OpenCUDA)
	if len(c.Lib.Missing) > 0 {
		t.Errorf("%s lacks %v", c.Lib.Path, c.Lib.Missing)
	}
	var n int32
	if err := errors.Join(c.Init(0), c.DeviceGetCount(&n)); err != nil && !errors.Is(err, NoDevice) && !errors.Is(err, NotInitialized) {
		t.Error(err)
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
		"CUipcMemHandle":                  {unsafe.Sizeof(IPCMemHandle{}), 64},
		"cublasLtMatmulHeuristicResult_t": {unsafe.Sizeof(LtHeuristicResult{}), 96},
		"ncclConfig_t":                    {unsafe.Sizeof(NCCLConfig{}), 48}, "ncclUniqueId": {unsafe.Sizeof(NCCLUniqueID{}), 128},
	} {
		if c[0] != c[1] {
			t.Errorf("%s has %d bytes, not %d", name, c[0], c[1])
		}
	}
}
