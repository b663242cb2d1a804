package usererr

import (
	"fmt"
	"strings"
	"syscall"
)

// denials maps texts of errors about files that may not be used to advice.
var denials = []struct{ says, fix string }{
	{syscall.EACCES.Error(), "let the user who runs trainctl use it: ls -ld shows who may, chmod and chown change that"},
	{syscall.EPERM.Error(), "run trainctl as the owner of the file; a container or a sandbox may forbid it, too"},
	{syscall.EROFS.Error(), "choose a folder on a file system that can be written"},
}

// Allowed adds to an error about a file that may not be used what makes it usable, unless the error says it already.
// It goes by the text, because errors of plugins are nothing else.
func Allowed(err error) error {
	text := err.Error()
	if strings.Contains(text, "fix:") || strings.Contains(text, "(") && strings.HasSuffix(strings.TrimSpace(text), ")") {
		return err
	}
	for _, d := range denials {
		if strings.Contains(text, d.says) {
			return fmt.Errorf("%w; fix: %s", err, d.fix)
		}
	}
	return err
}
