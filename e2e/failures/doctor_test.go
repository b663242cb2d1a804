//go:build linux

package failures

import (
	"regexp"
	"syscall"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/flight"
	"github.com/trainctl/trainctl/e2e/rig"
)

// When every process of a job was killed at once, its last operations are still
// there, in order, on all ranks.
func TestDoctorLooksAtADeadRun(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	r := p.StartEndless(t)
	p.WaitForSteps(t, r, 1, 300)
	rig.Signal(t, r.Cmd.Process.Pid, syscall.SIGKILL)
	r.Wait(t)
	rig.Eventually(t, "the end of all processes", func() bool { return len(p.Processes()) == 0 })
	report := p.FlightReport(t, 1)
	if len(report.Ranks) != 2 {
		t.Fatalf("ranks: %+v", report)
	}
	for _, k := range report.Ranks {
		if k.World != 2 || k.Plugin != "tcp" || k.Total < 600 || len(k.Operations) < 600 {
			t.Errorf("rank %d: %+v, %d operations of %d", k.Rank, k.About, len(k.Operations), k.Total)
		}
		for i := range k.Operations[1:] {
			a, b := k.Operations[i], k.Operations[i+1]
			if b.Seq != a.Seq+1 || b.Queued.Before(a.Queued) || a.State != flight.Ended && i < len(k.Operations)-20 {
				t.Fatalf("rank %d: %+v follows %+v", k.Rank, b, a)
			}
		}
	}
	if a, b := report.Ranks[0].Total, report.Ranks[1].Total; max(a, b)-min(a, b) > 10 {
		t.Errorf("ranks called %d and %d collectives", a, b)
	}
}

// A rank that makes no progress is found while the job hangs.
func TestDoctorFindsTheRankThatHangs(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	r := p.StartEndless(t, `backend.timeout="50s"`)
	rig.Signal(t, p.Worker(t, 1).PID, syscall.SIGSTOP)
	waits := regexp.MustCompile(`rank 0 called #\d+ all_reduce sum f\d+, \d+ bytes(, bucket \d)?, rank 1 did not`)
	rig.Eventually(t, "doctor to name rank 1", func() bool {
		said := p.FlightReport(t, 1).Differ
		if !waits.MatchString(said) {
			t.Logf("doctor says %q", said)
		}
		return waits.MatchString(said)
	})
	p.Trainctl(t, "doctor", "--run", p.RunDir(1), "--last", "3").Expect(t, 0)
	rig.Signal(t, p.Worker(t, 1).PID, syscall.SIGKILL)
	r.Wait(t).Expect(t, 5)
	p.Trainctl(t, "doctor", "--run", p.Dir+"/nowhere").Expect(t, 2).Prints(t, "no run "+p.Dir+"/nowhere")
}
