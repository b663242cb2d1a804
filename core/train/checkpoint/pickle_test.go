package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/afero"
)

// Files of torch.save are told by their content, whatever their names, and a
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
		fs := OsFS()
		path := filepath.Join(t.TempDir(), "a b.pth")
		if err := afero.WriteFile(fs, path, c.head, 0o644); err != nil {
			t.Fatal(err)
		}
		_, _, loaded := Load(t.Context(), fs, path)
		for _, err := range []error{loaded, Find(fs, path)} {
			if !errors.As(err, new(*PickleError)) || !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "torch.load("+strconv.Quote(path)+", ") || !strings.Contains(err.Error(), `a b.safetensors")`) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
