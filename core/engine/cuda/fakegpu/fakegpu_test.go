package fakegpu

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/engine/cuda/cudatest"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

func TestMain(m *testing.M) {
	if handles, other := os.LookupEnv(envOther); other {
		otherProcess(handles)
		return
	}
	os.Exit(m.Run())
}

// onBoth runs a test over this fake and over the libraries of cudatest: they
// refuse the same mistakes.
func onBoth(t *testing.T, test func(t *testing.T, c *driver.CUDA, n *driver.NCCL)) {
	t.Run("go", func(t *testing.T) {
		m := New(1)
		test(t, m.CUDA(), m.NCCL(22706))
		if left := m.Left(); left != "" {
			t.Errorf("left: %s", left)
		}
	})
	t.Run("libraries", func(t *testing.T) {
		cudatest.Libraries(t, 1)
		c, n := libraries(t)
		test(t, c, n)
	})
}

// libraries are those of cudatest, with a context on the test's thread.
func libraries(t *testing.T) (*driver.CUDA, *driver.NCCL) {
	t.Helper()
	c, err := driver.OpenCUDA(dl.System())
	check(t, err)
	n, err := driver.OpenNCCL(dl.System())
	check(t, err)
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	var x driver.Context
	check(t, errors.Join(c.PrimaryCtxRetain(&x, 0), c.CtxSetCurrent(x)))
	t.Cleanup(func() { check(t, c.PrimaryCtxRelease(0)) })
	return c, n
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A communicator of one rank goes through every state, and work on its stream
// is refused while a launch is in progress.
func TestALaunchIsInProgressUntilItIsAskedAbout(t *testing.T) {
	onBoth(t, func(t *testing.T, c *driver.CUDA, n *driver.NCCL) {
		var id driver.NCCLUniqueID
		var comm driver.Comm
		var stream driver.Stream
		var event driver.Event
		var p driver.DevicePtr
		config := driver.NewNCCLConfig()
		config.Blocking = 0
		check(t, errors.Join(c.StreamCreate(&stream, 0), c.EventCreate(&event, 0), c.MemAlloc(&p, 8), n.GetUniqueID(&id)))
		settle := func(err error) {
			t.Helper()
			if !errors.Is(err, driver.NCCLInProgress) {
				t.Fatalf("got %v", err)
			}
			for code := driver.NCCLInProgress; code == driver.NCCLInProgress; {
				if err := n.CommGetAsyncError(comm, &code); err != nil || code != driver.NCCLInProgress && code != driver.NCCLSuccess {
					t.Fatal(err, code)
				}
			}
		}
		settle(n.CommInitRankConfig(&comm, 1, id, 0, config))
		in, out := [2]float32{1, 2}, [2]float32{}
		check(t, c.MemcpyHtoDAsync(p, unsafe.Pointer(&in), 8, stream))
		launched := n.AllReduce(p, p, 2, driver.NCCLFloat32, driver.NCCLSum, comm, stream)
		if err := c.EventRecord(event, stream); !errors.Is(err, driver.NotPermitted) {
			t.Errorf("an event in the middle of a launch: %v", err)
		}
		if err := n.AllReduce(p, p, 2, driver.NCCLFloat32, driver.NCCLSum, comm, stream); !errors.Is(err, driver.NCCLInvalidUsage) {
			t.Errorf("a call in the middle of another: %v", err)
		}
		settle(launched)
		check(t, c.EventRecord(event, stream))
		for errors.Is(c.EventQuery(event), driver.NotReady) {
		}
		if err := errors.Join(c.EventQuery(event), c.MemcpyDtoH(unsafe.Pointer(&out), p, 8)); err != nil || out != in {
			t.Errorf("got %v, %v", out, err)
		}
		if err := n.AllReduce(p, p, 3, driver.NCCLFloat32, driver.NCCLSum, comm, stream); !errors.Is(err, driver.NCCLInvalidArgument) {
			t.Errorf("beyond the allocation: %v", err)
		}
		check(t, errors.Join(n.CommAbort(comm), c.StreamDestroy(stream), c.EventDestroy(event), c.MemFree(p)))
	})
}

// What CUDA leaves undefined, or lets pass though it is never meant, is refused
// or ends the test.
func TestMistakesAreRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, c *driver.CUDA, _ *driver.NCCL) {
		var s driver.Stream
		var p driver.DevicePtr
		var b [16]byte
		check(t, errors.Join(c.StreamCreate(&s, 0), c.MemAlloc(&p, 8)))
		for what, err := range map[string]error{
			"a copy beyond an allocation":   c.MemcpyHtoDAsync(p, unsafe.Pointer(&b), 16, s),
			"a copy from beyond it":         c.MemcpyDtoHAsync(unsafe.Pointer(&b), p+1, 8, s),
			"clearing beyond it":            c.MemsetD8Async(p, 0, 9, s),
			"freeing what is no allocation": c.MemFree(p + 1),
			"an event with time that is shared": func() error {
				var e driver.Event
				return c.EventCreate(&e, driver.EventInterprocess)
			}(),
		} {
			if err == nil {
				t.Errorf("%s is accepted", what)
			}
		}
		check(t, errors.Join(c.MemFree(p), c.StreamDestroy(s)))
	})
}

// The machine remembers what it does not refuse.
func TestMistakesAreRemembered(t *testing.T) {
	m := New(1)
	c := m.CUDA()
	var s driver.Stream
	var e driver.Event
	check(t, errors.Join(c.StreamCreate(&s, 0), c.EventCreate(&e, 0), c.StreamWaitEvent(s, e, 0), c.StreamDestroy(s), c.EventDestroy(e)))
	if left := m.Left(); left != "a wait for an event that was never recorded" {
		t.Errorf("left: %q", left)
	}
}

const envOther = "FAKEGPU_TEST_HANDLES"

// Between processes the libraries refuse what the machine remembers: memory that
// is freed under a process, events that were never recorded or are gone.
func TestMistakesBetweenProcesses(t *testing.T) {
	cudatest.Libraries(t, 1)
	c, _ := libraries(t)
	var p driver.DevicePtr
	var e driver.Event
	var memory driver.IPCMemHandle
	var event driver.IPCEventHandle
	check(t, errors.Join(c.MemAlloc(&p, 8), c.EventCreate(&e, driver.EventInterprocess|driver.EventDisableTiming), c.IPCGetMemHandle(&memory, p), c.IPCGetEventHandle(&event, e)))
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), envOther+"="+hex.EncodeToString(append(memory.Bytes[:], event.Bytes[:]...)))
	other.Stderr = os.Stderr
	in, err := other.StdinPipe()
	check(t, err)
	pipe, err := other.StdoutPipe()
	check(t, err)
	check(t, other.Start())
	out := bufio.NewReader(pipe)
	hear := func(want string) {
		t.Helper()
		line, err := out.ReadString('\n')
		if err != nil || !strings.Contains(line, want) {
			t.Errorf("the other process says %q, want %q (%v)", line, want, err)
		}
	}
	hear("CUDA_ERROR_INVALID_VALUE") // waiting for what was never recorded
	if err := c.MemFree(p); err == nil {
		t.Error("memory is freed while another process has it open")
	}
	check(t, c.EventDestroy(e))
	_, err = io.WriteString(in, "\n")
	check(t, err)
	hear("CUDA_ERROR_INVALID_VALUE") // waiting for what is gone
	check(t, in.Close())
	check(t, other.Wait())
	check(t, c.MemFree(p))
}

// otherProcess opens the handles, and says what a wait for the event gives, twice.
func otherProcess(handles string) {
	raw, _ := hex.DecodeString(handles)
	c, err := driver.OpenCUDA(dl.System())
	if err != nil {
		panic(err)
	}
	runtime.LockOSThread()
	var x driver.Context
	var s driver.Stream
	var p driver.DevicePtr
	var e driver.Event
	var memory driver.IPCMemHandle
	var event driver.IPCEventHandle
	copy(memory.Bytes[:], raw)
	copy(event.Bytes[:], raw[len(memory.Bytes):])
	fail := errors.Join(c.PrimaryCtxRetain(&x, 0), c.CtxSetCurrent(x), c.StreamCreate(&s, 0), c.IPCOpenMemHandle(&p, memory, 1), c.IPCOpenEventHandle(&e, event))
	fmt.Println(fail, c.StreamWaitEvent(s, e, 0))
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')
	fmt.Println(c.StreamWaitEvent(s, e, 0))
	_, _ = in.ReadString('\n')
}
