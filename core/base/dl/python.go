package dl

import (
	"context"
	"os/exec"
	"strings"
	"time"
)

// pythonBudget bounds the wait for an interpreter, which may be a wrapper
// script on a slow network file system.
const pythonBudget = 5 * time.Second

// askPython runs the python on PATH for its site-packages; none without one.
func askPython() []string {
	ctx, cancel := context.WithTimeout(context.Background(), pythonBudget)
	defer cancel()
	const script = `import site, sysconfig
p = sysconfig.get_paths()
print("\n".join(dict.fromkeys([p["purelib"], p["platlib"], site.getusersitepackages()])))`
	for _, name := range []string{"python3", "python"} {
		out, err := exec.CommandContext(ctx, name, "-c", script).Output()
		if err == nil {
			return strings.Fields(string(out))
		}
	}
	return nil
}
