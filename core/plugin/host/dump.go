package host

import (
	"path/filepath"
	"strings"
)

// dump is what Go's runtime prints when a process gets SIGQUIT: the stacks of
// all goroutines.
type dump struct{ lines []string }

const (
	maxDump   = 20_000 // lines
	maxFrames = 8      // of a goroutine, for a message
)

// take keeps a line from the one that begins the dump on.
func (d *dump) take(line string) bool {
	if len(d.lines) == 0 && !strings.HasPrefix(line, "SIGQUIT: quit") {
		return false
	}
	if len(d.lines) < maxDump {
		d.lines = append(d.lines, line)
	}
	return true
}

// calls are the functions of core/sdk that call into a plugin's code: the
// goroutine that hangs has one of them below the plugin's frames.
var calls = []string{"core/sdk.guard", "core/sdk.(*server).do", "core/sdk.(*server).fill", "core/sdk.(*server).update", "core/sdk.(*server).call"}

// hanging gives the frames above the call into the plugin, the innermost first:
// "main.(*Star).Do at star.go:118".
func (d *dump) hanging() []string {
	var frames []string // of the goroutine that is being read
	for i, line := range d.lines {
		switch {
		case strings.HasPrefix(line, "goroutine "):
			frames = []string{strings.TrimSuffix(line, ":")}
		case len(frames) == 0 || strings.HasPrefix(line, "\t") || line == "":
		case into(line):
			return frames[:min(len(frames), maxFrames+1)]
		default:
			frames = append(frames, frame(line, at(d.lines, i+1)))
		}
	}
	return nil
}

func into(line string) bool {
	for _, c := range calls {
		if strings.Contains(line, c) {
			return true
		}
	}
	return false
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// frame joins a function and the line below it, "\t/src/star.go:118 +0x1f".
func frame(function, place string) string {
	if i := strings.LastIndexByte(function, '('); i > 0 {
		function = function[:i]
	}
	place, _, _ = strings.Cut(strings.TrimSpace(place), " ")
	if place == "" {
		return function
	}
	return function + " at " + filepath.Base(place)
}
