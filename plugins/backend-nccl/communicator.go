package nccl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/plugins/internal/clib"
)

// communicator is a non-blocking communicator of NCCL: a call in progress is polled until
// it is done or the wait must end. All methods run on the thread.
type communicator struct {
	nccl   *driver.NCCL
	handle driver.Comm // 0 before start and after it has ended
}

// start joins the ranks' communicator and waits until all have.
func (m *communicator) start(world, rank int, id driver.NCCLUniqueID, g clib.Guard) error {
	config := driver.NewNCCLConfig()
	config.Blocking = 0
	return m.settle(m.nccl.CommInitRankConfig(&m.handle, int32(world), id, int32(rank), config), g)
}

// settle waits until a call that returned err is no longer in progress. Until then
// nothing may be enqueued on the call's stream.
func (m *communicator) settle(err error, g clib.Guard) error {
	if err != nil && !errors.Is(err, driver.NCCLInProgress) {
		return m.explain(err)
	}
	return clib.Poll(g, func() (bool, error) {
		code, err := m.state()
		return code == driver.NCCLSuccess, err
	})
}

// state is success or in progress; anything else is an error.
func (m *communicator) state() (driver.NCCLResult, error) {
	var code driver.NCCLResult
	if err := m.nccl.CommGetAsyncError(m.handle, &code); err != nil {
		return code, m.explain(err)
	}
	if code != driver.NCCLSuccess && code != driver.NCCLInProgress {
		return code, m.explain(code)
	}
	return code, nil
}

// explain adds NCCL's text of its last error.
func (m *communicator) explain(err error) error {
	if text := m.nccl.GetLastError(m.handle); text != "" {
		return fmt.Errorf("%w (%s)", err, text)
	}
	return err
}

// abort aborts the communicator.
func (m *communicator) abort() error {
	if m.handle == 0 {
		return nil
	}
	handle := m.handle
	m.handle = 0
	return m.nccl.CommAbort(handle)
}

// finalizeTime bounds ncclCommFinalize.
const finalizeTime = time.Second

// leave ends a healthy communicator after its outstanding operations.
func (m *communicator) leave() error {
	if m.handle == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), finalizeTime)
	defer cancel()
	if err := m.settle(m.nccl.CommFinalize(m.handle), ctx.Err); err != nil {
		return m.abort()
	}
	handle := m.handle
	m.handle = 0
	return m.nccl.CommDestroy(handle)
}
