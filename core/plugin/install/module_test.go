package install_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const mainText = `package main

import (
	"os"
	"syscall"
)

func main() { panic(syscall.Exec(%q, os.Args, os.Environ())) }
`

// proxy is a folder that serves one version of the module example.com/mine to the go
// command. Its command starts the plugin.
func proxy(t *testing.T) (dir string) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	const mod = "module example.com/mine\n\ngo 1.24\n"
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, text := range map[string]string{"go.mod": mod, "main.go": fmt.Sprintf(mainText, exe)} {
		f, err := w.Create("example.com/mine@v1.3.0/" + name)
		must(t, err)
		_, err = f.Write([]byte(text))
		must(t, err)
	}
	must(t, w.Close())
	dir = filepath.Join(t.TempDir(), "example.com", "mine", "@v")
	must(t, os.MkdirAll(dir, 0o755))
	for name, text := range map[string][]byte{"list": []byte("v1.3.0\n"), "v1.3.0.info": []byte(`{"Version":"v1.3.0"}`), "v1.3.0.mod": []byte(mod), "v1.3.0.zip": b.Bytes()} {
		must(t, errors.Join(os.WriteFile(filepath.Join(dir, name), text, 0o644)))
	}
	return filepath.Dir(filepath.Dir(filepath.Dir(dir)))
}

// A module's version is that of the plugin; the go command resolves "latest".
func TestInstallAModule(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is not in PATH")
	}
	t.Setenv("GOPROXY", "file://"+proxy(t))
	t.Setenv("GOSUMDB", "off")
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("GOFLAGS", "-modcacherw")
	installed(t, newRequest(t, "example.com/mine@latest"), "mine", "1.3.0")
	refuses(t, newRequest(t, "example.com/mine@v9.9.9"), "go install: ")
}
