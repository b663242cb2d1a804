package numpy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// npy is a file of float32 as numpy.save writes it.
func npy(shape string, values ...float32) []byte {
	head := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", shape)
	head += strings.Repeat(" ", 63-(10+len(head))%64) + "\n"
	b := bytes.NewBufferString("\x93NUMPY\x01\x00")
	_ = binary.Write(b, binary.LittleEndian, uint16(len(head)))
	b.WriteString(head)
	b.Write(tensor.Bytes(values))
	return b.Bytes()
}

// Files are normalised as the data set's own inputs are, or for other data sets read as they are.
func TestReadFilesThatWereNotOpened(t *testing.T) {
	fs := afero.NewMemMapFs()
	for path, content := range map[string][]byte{
		"/x.npy": npy("3, 2", 1, 10, 2, 20, 3, 30), "/y.npy": npy("3,", 0, 1, 1), "/new.npy": npy("2, 2", 1, 40, 5, 20), "/one.npy": npy("2,", 3, 10), "/bad.npy": npy("3,", 1, 2, 3),
	} {
		if err := afero.WriteFile(fs, path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d := New(fs)
	o, problems := sdk.CheckOptions("", d.Info().Options, map[string]any{"inputs": "/x.npy", "targets": "/y.npy", "mean": []any{2.0, 20.0}, "std": []any{2.0, 10.0}})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	raw := tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{2}}
	for _, c := range []struct {
		path      string
		own, asIs []float32
	}{
		{"/new.npy", []float32{-0.5, 2, 1.5, 0}, []float32{1, 40, 5, 20}},
		{"/one.npy", []float32{0.5, -1}, []float32{3, 10}},
	} {
		if got, err := d.Read(o, c.path); err != nil || !slices.Equal(tensor.View[float32](got), c.own) {
			t.Errorf("%s: %v, %v, want %v", c.path, tensor.View[float32](got), err, c.own)
		}
		if got, err := ReadInputs(fs, c.path, raw); err != nil || !slices.Equal(tensor.View[float32](got), c.asIs) {
			t.Errorf("%s: %v, %v, want %v", c.path, tensor.View[float32](got), err, c.asIs)
		}
	}
	if _, err := d.Read(o, "/bad.npy"); err == nil || !strings.Contains(err.Error(), "a sample has [2]") {
		t.Error(err)
	}
}
