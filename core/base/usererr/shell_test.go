package usererr

import (
	"os/exec"
	"testing"
)

// TestShell has a shell read what is written for it.
func TestShell(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash to read arguments")
	}
	for arg, want := range map[string]string{
		"runs/mnist-ddp/1/step-4": "runs/mnist-ddp/1/step-4",
		"my runs/a":               "'my runs/a'",
		"$HOME/*":                 "'$HOME/*'",
		"it's":                    `'it'\''s'`,
		"läufe/三":                 "'läufe/三'",
		"~/a":                     "'~/a'",
		`a"b\c`:                   `'a"b\c'`,
		"a\n\x1b[2J'ü\\":          `$'a\012\033[2J\'\303\274\\'`,
		"":                        "''",
		"a;b&c|d":                 "'a;b&c|d'",
	} {
		if got := Shell(arg); got != want {
			t.Errorf("Shell(%q) = %s, want %s", arg, got, want)
		}
		out, err := exec.Command(bash, "-c", "printf %s "+Shell(arg)).Output()
		if err != nil || string(out) != arg {
			t.Errorf("the shell reads %s as %q (%v)", Shell(arg), out, err)
		}
	}
}
