package cuda

import (
	"fmt"
	"time"
)

// leaving is how long the driver may take to take a device back.
const leaving = 3 * time.Second

// Close gives the device back. All programs over it are closed before. A device that
// is lost, or whose driver does not come back, is left behind: what it holds
// goes with the process.
func (d *Device) Close() error {
	close(d.closed)
	if d.gone() != nil {
		return fmt.Errorf("cuda: %s is left as it is; the driver takes it back when the process ends", d.label)
	}
	done := make(chan error, 1) // the goroutine is left behind with a driver that hangs
	go func() { done <- d.close() }()
	select {
	case err := <-done:
		return err
	case <-time.After(leaving):
		return fmt.Errorf("cuda: %s was not given back within %v, and is left as it is; the driver takes it back when the process ends", d.label, leaving)
	}
}

func (d *Device) close() error {
	leave := d.enter()
	err := joinFree(d.feed.close(d), d.lib.close())
	err = joinFree(err, d.cu.StreamDestroy(d.stream))
	for t, m := range d.modules {
		err = joinFree(err, d.cu.ModuleUnload(m))
		delete(d.modules, t)
	}
	leave()
	return joinFree(err, d.cu.PrimaryCtxRelease(d.dev))
}
