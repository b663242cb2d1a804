package launch

import (
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// Environment variables that name a rank's inherited descriptors.
const (
	EnvLifelineFD = "TRAINCTL_LIFELINE_FD"
	EnvEventFD    = "TRAINCTL_EVENT_FD"
)

// Lifeline is the read end of the launcher's lifeline pipe in a rank, nil without
// a launcher. It reads EOF when the launcher is dead, and nothing before. A rank
// that starts child processes passes it to them (exec.Cmd.ExtraFiles,
// EnvLifelineFD), so that they end with the launcher too.
func Lifeline() *os.File { return lifeline() }

var lifeline = sync.OnceValue(func() *os.File { return inherited(EnvLifelineFD, "lifeline") })

// EventFile is where a rank writes its events, one JSON object per line and
// write; nil without a launcher.
func EventFile() *os.File { return eventFile() }

var eventFile = sync.OnceValue(func() *os.File { return inherited(EnvEventFD, "events") })

func inherited(env, name string) *os.File {
	fd, err := strconv.Atoi(os.Getenv(env))
	if err != nil || fd < 3 {
		return nil
	}
	syscall.CloseOnExec(fd) // a child gets it only if it is passed explicitly
	syscall.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}

// WatchLifeline calls onDead from a new goroutine once the launcher is dead; nil
// kills this process and its process group at once. Without a launcher it does
// nothing. Call it once per process.
func WatchLifeline(onDead func()) {
	f := Lifeline()
	if f == nil {
		return
	}
	if onDead == nil {
		onDead = func() {
			syscall.Kill(0, syscall.SIGKILL)
			os.Exit(ExitFailed)
		}
	}
	go func() {
		io.Copy(io.Discard, f)
		onDead()
	}()
}
