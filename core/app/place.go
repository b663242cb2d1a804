package app

import (
	"os"
	"strconv"
	"time"

	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/job/rank"
)

// Environment variables that the launcher sets for its workers, besides the rank's.
const (
	envRunDir    = "TRAINCTL_RUN_DIR"    // directory of this run, created by the launcher
	envStarted   = "TRAINCTL_STARTED"    // when the launcher's process began, Unix nanoseconds
	envContinues = "TRAINCTL_CONTINUES"  // directory of the run that this one continues
	envSockets   = "TRAINCTL_SOCKET_DIR" // where the plugins' sockets go
)

// place is what our launcher gives a rank: a process through its environment, a goroutine directly.
// A rank of another launcher has the zero value.
type place struct {
	launched  bool
	runDir    string // of this run, created by the launcher; "" on other nodes than 0 that do not see it
	started   time.Time
	continues string // directory of the run that this one continues
	sockets   string // where the plugins' sockets go
	joins     bool   // the job has begun without this rank
	events    *os.File
	thread    *launch.Place // nil: the rank is a process
}

// placeFromEnv is the place of a process.
func placeFromEnv() place {
	p := place{continues: os.Getenv(envContinues), sockets: os.Getenv(envSockets), events: launch.EventFile()}
	p.runDir, p.launched = os.LookupEnv(envRunDir)
	_, p.joins = os.LookupEnv(rank.EnvJoins)
	if ns, err := strconv.ParseInt(os.Getenv(envStarted), 10, 64); err == nil {
		p.started = time.Unix(0, ns)
	}
	return p
}

// env is the place as the environment of a process.
func (p place) env() []string {
	return []string{
		envContinues + "=" + p.continues,
		envRunDir + "=" + p.runDir,
		envSockets + "=" + p.sockets,
		envStarted + "=" + strconv.FormatInt(p.started.UnixNano(), 10),
	}
}

// launcherPID is the process of our launcher; 0 under another one.
func (p place) launcherPID() int {
	switch {
	case p.thread != nil:
		return os.Getpid()
	case launch.Lifeline() == nil:
		return 0
	}
	return os.Getppid()
}

// lookup reads the environment of a rank.
func (p place) lookup(name string) (string, bool) {
	switch {
	case p.thread == nil:
		return os.LookupEnv(name)
	case name == rank.EnvStore:
		return p.thread.Store, true
	}
	return "", false
}
