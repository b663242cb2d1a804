//go:build linux && amd64 && !nogpu

package dl

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"
)

// fake is the binding of testdata/fake.c.
type fake struct {
	Status  func(code int32) error                                                                          `dl:"fakeStatus"`
	Open64  func(p *uint64, h struct{ B [64]byte }, flags uint32) error                                     `dl:"fakeOpen64"`
	Init128 func(comm *uintptr, n int32, id struct{ B [128]byte }, rank int32, config unsafe.Pointer) error `dl:"fakeInit128"`
	Sixteen func(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p uint64) error                               `dl:"fakeSixteen"`
	Mixed   func(a1 int64, a2 int32, a3 int64, a4 uint8, a5 int64, a6 uint16, f1 float64, a7 int64, a8 int32, a9, a10 int64, f2 float64, f3 float32,
		a11 int64, a12 int32, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22 int64) error `dl:"fakeMixed"`
	Thirty func(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22 int64, f1 float64,
		a23, a24, a25, a26, a27, a28, a29 int64) error `dl:"fakeThirty"`
	Name    func(code int32) string `dl:"fakeName"`
	Version func() uintptr          `dl:"fakeVersion"`
	Newer   func(n int32) error     `dl:"fakeNewer,3.1"`
	Quiet   func() uintptr          `dl:"fakeQuiet,3.2"`
	Ours    func()                  // not of the library
}

type code int32

func (c code) Error() string { return "code" }

func compiled(t *testing.T) *Library {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler to build the made-up library with")
	}
	path := filepath.Join(t.TempDir(), "libfake.so.1")
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-O1", "-o", path, "testdata/fake.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func bound(t *testing.T, l *Library) (*fake, []Entry) {
	t.Helper()
	f := &fake{}
	missing, err := Bind(l, f, func(symbol string, c int32) error { return errors.Join(errors.New(symbol), code(c)) })
	if err != nil {
		t.Fatal(err)
	}
	return f, missing
}

func TestArgumentsArrive(t *testing.T) {
	l := compiled(t)
	f, _ := bound(t, l)
	var handle struct{ B [64]byte }
	var id struct{ B [128]byte }
	for i := range handle.B {
		handle.B[i] = byte(1 + i)
	}
	for i := range id.B {
		id.B[i] = byte(3 + i)
	}
	var address uint64
	var comm uintptr
	size := int32(48)
	for name, err := range map[string]error{
		"a struct of 64 bytes":  f.Open64(&address, handle, 7),
		"a struct of 128 bytes": f.Init128(&comm, 4, id, 2, unsafe.Pointer(&size)),
		"16 words":              f.Sixteen(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16),
		"22 words and floats":   f.Mixed(1, 2, 3, 4, 5, 6, 0.1, 7, 8, 9, 10, 1e-5, 0.5, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22),
		"29 words and a float":  f.Thirty(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 1e-5, 23, 24, 25, 26, 27, 28, 29),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if address != 0x1122334455667788 || comm != 0x77 {
		t.Errorf("results through pointers: %#x, %#x", address, comm)
	}
	if f.Name(5) != "five" || f.Version() != 92800 {
		t.Errorf("results: %q, %d", f.Name(5), f.Version())
	}
	if r := Call(l.Symbol("fakeSixteen"), 16, Words{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}); r != 0 {
		t.Errorf("Call: argument %d is wrong", r)
	}
}

func TestStatusesBecomeErrors(t *testing.T) {
	f, missing := bound(t, compiled(t))
	if err := f.Status(0); err != nil {
		t.Error(err)
	}
	if err := f.Status(-3); !errors.Is(err, code(-3)) || !strings.Contains(err.Error(), "fakeStatus") {
		t.Errorf("got %v", err)
	}
	var gone *MissingError
	if err := f.Newer(1); !errors.As(err, &gone) || gone.Since != "3.1" || gone.Library != "libfake.so.1" {
		t.Errorf("got %v", err)
	}
	if f.Quiet() != 0 || len(missing) != 2 || missing[0].Symbol != "fakeNewer" {
		t.Errorf("missing: %v", missing)
	}
}

func TestRequiredSymbol(t *testing.T) {
	var binding struct {
		Gone func() error `dl:"fakeGone"`
	}
	var gone *MissingError
	if _, err := Bind(compiled(t), &binding, nil); !errors.As(err, &gone) || gone.Symbol != "fakeGone" {
		t.Errorf("got %v", err)
	}
}
