package gpu

import (
	"cmp"
	"fmt"
	"time"
)

// leaving is how long the driver may take to take a device back.
const leaving = 3 * time.Second

// Close releases the device, after free has released the memory on it. Close all
// programs first. A device that is lost, or whose driver does not return, is not
// released: its memory is freed when the process ends.
func (g *GPU) Close(free func() error) error {
	close(g.closed)
	if g.Lost() != nil {
		return fmt.Errorf("cuda: %s is not released; the driver releases it when the process ends", g.label)
	}
	done := make(chan error, 1) // the goroutine is left behind with a driver that hangs
	go func() { done <- g.close(free) }()
	select {
	case err := <-done:
		return err
	case <-time.After(leaving):
		return fmt.Errorf("cuda: %s was not released within %v; the driver releases it when the process ends", g.label, leaving)
	}
}

func (g *GPU) close(free func() error) error {
	leave := g.Enter()
	err := free()
	err = cmp.Or(err, g.CU.StreamDestroy(g.Stream))
	for t, m := range g.modules {
		err = cmp.Or(err, g.CU.ModuleUnload(m))
		delete(g.modules, t)
	}
	leave()
	return cmp.Or(err, g.CU.PrimaryCtxRelease(g.Dev))
}
