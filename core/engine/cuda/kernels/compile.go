package kernels

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// Compiler turns sources into images for one device, and remembers them in a
// folder by the hash of everything that an image depends on.
type Compiler struct {
	RTC  *driver.NVRTC
	Arch string // "sm_90"; "compute_90" for a program that the driver finishes
	Dir  string // "" remembers nothing
}

// Target is what NVRTC compiles for a device of that capability, 90 for 9.0:
// the device itself, or if that is newer than NVRTC, the newest that it knows.
func Target(rtc *driver.NVRTC, capability int32) string {
	var n int32
	exact := fmt.Sprintf("sm_%d", capability)
	if rtc.GetNumSupportedArchs == nil || rtc.GetNumSupportedArchs(&n) != nil || n < 1 {
		return exact
	}
	known := make([]int32, n)
	if rtc.GetSupportedArchs(&known[0]) != nil || known[n-1] >= capability {
		return exact
	}
	return fmt.Sprintf("compute_%d", known[n-1])
}

// virtual reports that the image is PTX.
func (c *Compiler) virtual() bool { return strings.HasPrefix(c.Arch, "compute_") }

func (c *Compiler) options() []string { return []string{"--gpu-architecture=" + c.Arch, "--std=c++17"} }

// Image is the program of a source, from the folder if it is there and intact.
func (c *Compiler) Image(source string) ([]byte, error) {
	path := ""
	if c.Dir != "" {
		path = filepath.Join(c.Dir, c.key(source)+".cubin")
		if b, ok := readImage(path); ok {
			return b, nil
		}
	}
	b, err := c.compile(source)
	if err == nil && path != "" {
		_ = writeImage(path, b) // a cache that cannot be written costs the next start, no more
	}
	return b, err
}

func (c *Compiler) key(source string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00%s", c.RTC.Lib.Version, strings.Join(c.options(), "\x00"), source)
	return hex.EncodeToString(h.Sum(nil))
}

// readImage checks the sum that writeImage put in front.
func readImage(path string) ([]byte, bool) {
	b, err := os.ReadFile(path)
	if err != nil || len(b) < sha256.Size {
		return nil, false
	}
	sum := sha256.Sum256(b[sha256.Size:])
	return b[sha256.Size:], bytes.Equal(sum[:], b[:sha256.Size])
}

// writeImage replaces the file at once: ranks that start together write the same.
func writeImage(path string, image []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".cubin-*")
	if err != nil {
		return err
	}
	sum := sha256.Sum256(image)
	_, err = f.Write(append(sum[:], image...))
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func (c *Compiler) compile(source string) (image []byte, err error) {
	var p driver.Program
	if err := c.RTC.CreateProgram(&p, driver.CString(source), driver.CString("trainctl.cu"), 0, nil, nil); err != nil {
		return nil, err
	}
	defer func() { _ = c.RTC.DestroyProgram(&p) }()
	var options []*byte
	for _, o := range c.options() {
		options = append(options, driver.CString(o))
	}
	if err := c.RTC.CompileProgram(p, int32(len(options)), unsafe.SliceData(options)); err != nil {
		return nil, fmt.Errorf("compiling kernels for %s: %w\n%s", c.Arch, err, c.log(p))
	}
	size, get := c.RTC.GetCUBINSize, c.RTC.GetCUBIN
	if c.virtual() {
		size, get = c.RTC.GetPTXSize, c.RTC.GetPTX
	}
	var n uintptr
	if err := size(p, &n); err != nil {
		return nil, err
	}
	image = make([]byte, n)
	return image, get(p, unsafe.Pointer(unsafe.SliceData(image)))
}

// log is what the Compiler said about a program.
func (c *Compiler) log(p driver.Program) string {
	var n uintptr
	if c.RTC.GetProgramLogSize(p, &n) != nil || n == 0 {
		return ""
	}
	b := make([]byte, n)
	if c.RTC.GetProgramLog(p, unsafe.SliceData(b)) != nil {
		return ""
	}
	return driver.FromBuffer(b)
}
