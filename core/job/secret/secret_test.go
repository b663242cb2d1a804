package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// child makes this test binary a process that shows what it was started with.
const child = "SECRET_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(child) == "" {
		os.Exit(m.Run())
	}
	g := Take()
	seen, _ := os.ReadFile("/proc/self/environ")
	inherited, _ := exec.Command("env").CombinedOutput()
	json.NewEncoder(os.Stdout).Encode(map[string]string{
		"secret": g.Secret.Reveal(), "source": g.Source, "err": fmt.Sprint(g.Err), "exposed": fmt.Sprint(g.Exposed),
		"environ": string(seen), "inherited": string(inherited),
	})
	os.Exit(0)
}

func start(t *testing.T, cmd *exec.Cmd) map[string]string {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return got
}

// startWithSecret starts a child with a secret between two other variables.
func startWithSecret(t *testing.T) (text string, got map[string]string) {
	t.Helper()
	text = "the-secret-of-this-test"
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), child+"=1", "BEFORE=stays", Env+"="+text, "AFTER=stays")
	return text, start(t, cmd)
}

// The first thing a process does with its secret is to take it out of its environment.
func TestTakeEmptiesTheEnvironment(t *testing.T) {
	text, got := startWithSecret(t)
	if got["secret"] != text || got["source"] != Env {
		t.Fatalf("took %v", got)
	}
	if strings.Contains(got["inherited"], text) {
		t.Error("children inherit the secret")
	}
}

func TestPipeReachesTheChildAlone(t *testing.T) {
	s := New()
	f, err := s.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command(os.Args[0])
	own := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TRAINCTL_") }) // such as TRAINCTL_CPU
	cmd.Env = append(own, child+"=1", EnvFD+"=3", Env+"=of an outer job, not this one")
	cmd.ExtraFiles = []*os.File{f}
	got := start(t, cmd)
	if got["secret"] != s.Reveal() || got["source"] != EnvFD || strings.Contains(got["inherited"], "TRAINCTL_") {
		t.Errorf("got %v", got)
	}
}

func TestShortSecretsAreRefused(t *testing.T) {
	for text, ok := range map[string]bool{"": false, "short": false, "a\nb": false, strings.Repeat("x", 5000): false, "sixteen letters!": true, " \t" + New().Reveal() + "\n": true} {
		if _, err := Parse(text); (err == nil) != ok {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), child+"=1", Env+"=guess-me")
	if got := start(t, cmd); !strings.Contains(got["err"], "8 characters") || !strings.Contains(got["err"], "trainctl secret") || strings.Contains(got["err"], "guess-me") {
		t.Errorf("says %q", got["err"])
	}
}

func TestSecretsHideFromPrinters(t *testing.T) {
	s := New()
	in := struct{ S Secret }{s}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%v %+v %#v %s %x %q %d %v", s, s, s, s, s, s, s, in)
	json.NewEncoder(&b).Encode(in)
	if raw := b.String(); strings.Contains(raw, s.Reveal()) || strings.Contains(raw, fmt.Sprintf("%x", s.Reveal())) || strings.Contains(raw, fmt.Sprint([]byte(s.Reveal()))) {
		t.Errorf("printed %s", raw)
	}
}

func TestKeysDifferByLabel(t *testing.T) {
	s := New()
	if bytes.Equal(s.Key("a"), s.Key("b")) || !bytes.Equal(s.Key("a"), s.Key("a")) || bytes.Equal(s.Key("a"), New().Key("a")) {
		t.Error("keys do not follow from secret and label alone")
	}
	if s.Derive("a").Reveal() == s.Derive("b").Reveal() {
		t.Error("two parts of a job share a secret")
	}
}

func TestReadFileWantsItPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "job.secret")
	if err := os.WriteFile(path, []byte(New().Reveal()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o660: false, 0o644: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := readFile(path)
		if (err == nil) != ok {
			t.Errorf("mode %#o: %v", mode, err)
		}
		if !ok && (usererr.Problems(err) == nil || !strings.Contains(err.Error(), "chmod 600")) {
			t.Errorf("mode %#o: %v does not say how to fix it", mode, err)
		}
	}
	if os.Getuid() == 0 {
		if err := os.Chown(path, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		os.Chmod(path, 0o600)
		if _, err := readFile(path); err == nil || !strings.Contains(err.Error(), "another user") {
			t.Errorf("another user's file: %v", err)
		}
	}
	if _, err := readFile(t.TempDir()); err == nil {
		t.Error("a directory is a secret")
	}
	if _, err := readFile(path + "-none"); usererr.Problems(err) == nil || !strings.Contains(err.Error(), "launch.secret_file") {
		t.Error(err)
	}
}

// All ranks of a host find the same key, whichever rank is first, and no other user can
// read it.
func TestRanksOfOneHostAgree(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	if runtime.GOOS == "darwin" {
		t.Setenv("HOME", cache)
	}
	texts := make([]string, 16)
	var wg sync.WaitGroup
	for i := range texts {
		wg.Go(func() {
			s, err := OfHost("job")
			if err != nil {
				t.Error(err)
			}
			texts[i] = s.Reveal()
		})
	}
	wg.Wait()
	for _, s := range texts {
		if s == "" || s != texts[0] {
			t.Fatal("ranks disagree")
		}
	}
	if other, err := OfHost("another job"); err != nil || other.Reveal() == texts[0] {
		t.Errorf("two jobs share a secret: %v", err)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "trainctl"))
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v %v", entries, err)
	}
	path := filepath.Join(dir, "trainctl", entries[0].Name())
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OfHost("job"); err == nil || !strings.Contains(err.Error(), "0644") || !strings.Contains(err.Error(), Env) {
		t.Errorf("a key that all can read: %v", err)
	}
}

func TestPipeIsEmptyForTheNextReader(t *testing.T) {
	f, err := New().Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	io.Copy(io.Discard, f)
	if n, err := f.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("%d bytes are left: %v", n, err)
	}
}
