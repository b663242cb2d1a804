package kernels

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/tensor"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// An image that does not have the sum in front of it is compiled again.
func TestDamagedImageIsNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "x.cubin")
	if err := writeImage(path, []byte("image")); err != nil {
		t.Fatal(err)
	}
	if b, ok := readImage(path); !ok || string(b) != "image" {
		t.Errorf("read %q, %v", b, ok)
	}
	b := read(t, path)
	b[len(b)-1] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := readImage(path); ok {
		t.Error("a damaged image was read")
	}
}

// Ranks that start together write the same image, and all can read it.
func TestImagesWrittenTogether(t *testing.T) {
	path, image := filepath.Join(t.TempDir(), "x.cubin"), bytes.Repeat([]byte("image"), 50_000)
	var g errgroup.Group
	for range 8 {
		g.Go(func() error {
			if err := writeImage(path, image); err != nil {
				return err
			}
			if b, ok := readImage(path); !ok || !bytes.Equal(b, image) {
				return errors.New("another image was read")
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".cubin-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// A GPU that NVRTC does not know gets a program for the newest that it does, which the driver finishes.
func TestTargetOfANewerGPU(t *testing.T) {
	archs := []int32{75, 80, 90}
	rtc := &driver.NVRTC{
		GetNumSupportedArchs: func(n *int32) error { *n = int32(len(archs)); return nil },
		GetSupportedArchs:    func(a *int32) error { copy(unsafe.Slice(a, len(archs)), archs); return nil },
	}
	for capability, want := range map[int32]string{80: "sm_80", 86: "sm_86", 90: "sm_90", 120: "compute_90"} {
		if got := Target(rtc, capability); got != want {
			t.Errorf("capability %d gets %s, want %s", capability, got, want)
		}
	}
	rtc.GetNumSupportedArchs = func(*int32) error { return driver.NVRTCResult(11) }
	if got := Target(rtc, 120); got != "sm_120" {
		t.Errorf("an NVRTC that does not say gets %s", got)
	}
}

// The kernels compile for architectures of several generations, where NVRTC is installed: it needs no GPU.
func TestKernelsCompile(t *testing.T) {
	rtc, err := driver.OpenNVRTC(dl.System())
	if err != nil {
		t.Skipf("needs an installed NVRTC, though no GPU: %v", err)
	}
	all := []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16}
	for arch, types := range map[string][]tensor.DType{"sm_75": {tensor.F32}, "sm_80": {tensor.BF16}, "sm_90": all} {
		for _, d := range types {
			c := &Compiler{RTC: rtc, Arch: arch, Dir: t.TempDir()}
			b, err := c.Image(Source(d, Block))
			if err != nil {
				t.Fatal(err)
			}
			again, ok := readImage(filepath.Join(c.Dir, c.key(Source(d, Block))+".cubin"))
			if !ok || string(again) != string(b) {
				t.Error("the image is not in the cache")
			}
		}
	}
}
