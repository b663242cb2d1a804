package cuda

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// feed copies batches ahead of their runs, on a stream of its own, into one of
// two places in turn; a run moves its batch from there to where its kernels
// read, and has ended when its place is filled again.
type feed struct {
	stream driver.Stream
	plates [2]plate
	next   int
	direct driver.Event // a batch that was not fed ahead was read
	read   driver.Event // of the run under way: full or direct
}

// plate is room for one batch.
type plate struct {
	input         uintptr // host address of the batch in it; 0: none
	inputN, total int
	at            driver.DevicePtr
	room          int
	full          driver.Event // the batch is here
}

// Feed implements [plan.Resident].
func (d *Device) Feed(input, target []byte) error {
	if err := d.gone(); err != nil {
		return err
	}
	defer d.enter()()
	if err := d.feed.open(d); err != nil {
		return d.told(err, to("the stream of the batches"))
	}
	p := &d.feed.plates[d.feed.next]
	d.feed.next = 1 - d.feed.next
	if err := p.fill(d, input, target); err != nil {
		p.input = 0
		return d.told(err, to("copying a batch ahead"))
	}
	return nil
}

func (p *plate) fill(d *Device, input, target []byte) error {
	p.inputN, p.total = len(input), roundUp(len(input))+len(target)
	if p.room < p.total {
		if err := p.grow(d); err != nil {
			return err
		}
	}
	for _, c := range []struct {
		at   driver.DevicePtr
		from []byte
	}{{p.at, input}, {p.at + driver.DevicePtr(roundUp(len(input))), target}} {
		if len(c.from) == 0 {
			continue
		}
		if err := d.cu.MemcpyHtoDAsync(c.at, unsafe.Pointer(unsafe.SliceData(c.from)), uintptr(len(c.from)), d.feed.stream); err != nil {
			return err
		}
	}
	p.input = addressOf(input)
	return d.cu.EventRecord(p.full, d.feed.stream)
}

func (p *plate) grow(d *Device) (err error) {
	if p.at != 0 {
		err = d.cu.MemFree(p.at)
	}
	p.at, p.room = 0, 0
	if err == nil {
		if p.at, err = d.alloc(p.total, "the next batch"); err == nil {
			p.room = p.total
		}
	}
	return err
}

// Fed implements [plan.Resident].
func (d *Device) Fed() error {
	if d.feed.read == 0 {
		return nil
	}
	defer d.enter()()
	return d.await(d.feed.stream, d.feed.read, to("the copy of a batch to the GPU"))
}

// Forget implements [plan.Resident].
func (d *Device) Forget() {
	for i := range d.feed.plates {
		d.feed.plates[i].input = 0
	}
}

// Pin implements [plan.Resident].
func (d *Device) Pin(mem []byte) (unpin func() error, note string) {
	defer d.enter()()
	undo, note := d.pin(mem)
	return func() error {
		if d.gone() != nil {
			return nil
		}
		defer d.enter()()
		return undo()
	}, note
}

func (f *feed) holding(input []byte) *plate {
	for i := range f.plates {
		if p := &f.plates[i]; p.input != 0 && p.input == addressOf(input) && p.inputN == len(input) {
			return p
		}
	}
	return nil
}

func (f *feed) open(d *Device) error {
	if f.stream != 0 {
		return nil
	}
	for _, e := range f.events() {
		if err := d.cu.EventCreate(e, driver.EventDisableTiming); err != nil {
			return err
		}
	}
	return d.cu.StreamCreate(&f.stream, driver.StreamNonBlocking)
}

func (f *feed) events() []*driver.Event {
	a, b := &f.plates[0], &f.plates[1]
	return []*driver.Event{&a.full, &b.full, &f.direct}
}

func (f *feed) close(d *Device) (err error) {
	if f.stream == 0 {
		return nil
	}
	err = d.cu.StreamDestroy(f.stream)
	for _, e := range f.events() {
		err = joinFree(err, d.cu.EventDestroy(*e))
	}
	for i := range f.plates {
		if p := &f.plates[i]; p.at != 0 {
			err = joinFree(err, d.cu.MemFree(p.at))
		}
	}
	return err
}

// eat brings a call's batch to where the kernels read it: from the plate that
// it was put on ahead, or from the host.
func (m *memory) eat(c *plan.Call) error {
	d := m.dev
	p := d.feed.holding(c.Input)
	if p == nil {
		if err := joinFree(m.up(m.batch, c.Input), m.up(m.target, c.Target)); err != nil || len(d.spans) == 0 {
			return err
		}
		if err := d.feed.open(d); err != nil {
			return err
		}
		d.feed.read = d.feed.direct
		return d.cu.EventRecord(d.feed.direct, d.stream)
	}
	p.input, d.feed.read = 0, p.full
	if err := d.cu.StreamWaitEvent(d.stream, p.full, 0); err != nil {
		return err
	}
	return d.cu.MemcpyDtoDAsync(m.batch, p.at, uintptr(p.total), d.stream) // the target lies behind the input in both
}
