package safetensors

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/afero"
)

// Files of torch.save are recognised by their content, whatever their names, and a
// safetensors file never is one, also when its first bytes look alike.
func TestPickles(t *testing.T) {
	header := func(n int) []byte {
		text := "{" + strings.Repeat(" ", n-2) + "}"
		return append(binary.LittleEndian.AppendUint64(nil, uint64(n)), text...)
	}
	for name, c := range map[string]struct {
		head []byte
		want bool
	}{
		"zip":              {[]byte("PK\x03\x04\x00\x00\x08\x08archive/data.pklFB"), true},
		"another zip":      {[]byte("PK\x03\x04\x00\x00\x08\x08weights.npy"), false},
		"legacy":           {[]byte("\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."), true},
		"pickle.dump":      {[]byte("\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}"), true},
		"safetensors":      {header(0x100), false},
		"safetensors 0280": {header(0x280), false},
		"empty":            {nil, false},
	} {
		if got := isPickle(bytes.NewReader(c.head)); got != c.want {
			t.Errorf("%s: pickle %v, want %v", name, got, c.want)
		}
		if !c.want {
			continue
		}
		path := filepath.Join(t.TempDir(), "a b.pth")
		if err := os.WriteFile(path, c.head, 0o644); err != nil {
			t.Fatal(err)
		}
		_, _, err := Read(c.head)
		for _, err := range []error{RefusePickle(afero.NewOsFs(), path), PickleAt(path, err)} {
			if !errors.As(err, new(*PickleError)) || !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "torch.load("+strconv.Quote(path)+", ") || !strings.Contains(err.Error(), `a b.safetensors")`) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// What a pickle would import is named, by whichever instruction, and what weights
// need is not. Whatever else the bytes are, they end the search.
func TestForeignGlobals(t *testing.T) {
	zipped := func(pickle string) string {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for name, text := range map[string]string{"model/data.pkl": pickle, "model/data/0": "\x80\x04cos\nsystem\n."} {
			w, err := z.Create(name)
			if err == nil {
				_, err = w.Write([]byte(text))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	const weights = "\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01(X\x01\x00\x00\x00wq\x02ctorch._utils\n_rebuild_tensor_v2\nq\x03tR."
	for name, c := range map[string]struct{ pickle, want string }{
		"weights":              {zipped(weights), ""},
		"GLOBAL":               {zipped("cos\nsystem\n(S'id'\ntR."), "os.system"},
		"GLOBAL after weights": {zipped(weights + "\x80\x02cbuiltins\neval\n."), "builtins.eval"},
		"INST":                 {"\x80\x02(S'id'\nisubprocess\nPopen\n.", "subprocess.Popen"},
		"STACK_GLOBAL":         {"\x80\x04\x95\x20\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93.", "posix.system"},
		"from the memo":        {"\x80\x04\x8c\x06system\x94\x8c\x05posix\x94h\x01h\x00\x93.", "posix.system"},
		"not an instruction":   {"\x80\x04\xff", ""},
		"a long string":        {"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fos", ""},
		"cut short":            {"\x80\x04X\x10\x00\x00\x00os", ""},
		"cut in a name":        {"\x80\x04cos", ""},
	} {
		if got := foreignGlobal(strings.NewReader(c.pickle), int64(len(c.pickle))); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func FuzzForeignGlobal(f *testing.F) {
	f.Add([]byte("\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93."))
	f.Add([]byte("\x80\x02(S'id'\nisubprocess\nPopen\n."))
	f.Fuzz(func(_ *testing.T, b []byte) { foreignGlobal(bytes.NewReader(b), int64(len(b))) })
}
