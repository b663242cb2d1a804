package fakegpu

import (
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"reflect"
	"sync"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// The machine for other processes: every call of the two libraries travels as
// the bytes of its arguments, which both sides lay out alike.

// question is a call. Args are the bytes of each argument, or of what it points to.
type question struct {
	Library, Function string
	Args              [][]byte
	Host              []byte // of a copy to the device
}

// answer has what the call wrote through its pointers.
type answer struct {
	Args   [][]byte
	Host   []byte // of a copy from the device
	Call   string // "" for success
	Status int32
}

// Serve gives the machine to every caller of l, until l is closed. Each caller
// is a process, whose end is the end of its connection.
func (m *Machine) Serve(l net.Listener, ncclVersion int32) {
	var callers sync.WaitGroup
	defer callers.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		callers.Go(func() {
			defer c.Close()
			m.Process().serve(c, ncclVersion)
		})
	}
}

func (p *Process) serve(c net.Conn, ncclVersion int32) {
	defer p.Die()
	cuda := p.CUDA()
	cuda.MemImportFromShareableHandle = func(h *driver.MemHandle, inode uintptr, _ int32) error {
		return p.importInode(h, uint64(inode)) // the descriptor is the caller's
	}
	libraries := map[string]reflect.Value{"CUDA": reflect.ValueOf(cuda).Elem(), "NCCL": reflect.ValueOf(p.NCCL(ncclVersion)).Elem()}
	in, out := gob.NewDecoder(c), gob.NewEncoder(c)
	for {
		var q question
		if in.Decode(&q) != nil {
			return
		}
		a := answer{Call: q.Function, Status: int32(driver.NotSupported)}
		if f := libraries[q.Library].FieldByName(q.Function); f.IsValid() && !f.IsNil() {
			a = q.do(f)
		}
		if out.Encode(a) != nil {
			return
		}
	}
}

// do calls f with arguments made of their bytes.
func (q *question) do(f reflect.Value) (a answer) {
	args := make([]reflect.Value, f.Type().NumIn())
	for i := range args {
		t := f.Type().In(i)
		switch t.Kind() {
		case reflect.UnsafePointer: // the host's side of a copy
			args[i] = reflect.ValueOf(unsafe.Pointer(unsafe.SliceData(append(q.Host, 0))))
		case reflect.Pointer:
			args[i] = reflect.New(t.Elem())
			copy(raw(args[i]), q.Args[i])
		default:
			v := reflect.New(t)
			copy(raw(v), q.Args[i])
			args[i] = v.Elem()
		}
	}
	err, _ := f.Call(args)[0].Interface().(error)
	a.Args = make([][]byte, len(args))
	for i, v := range args {
		switch v.Kind() {
		case reflect.UnsafePointer:
			a.Host = unsafe.Slice((*byte)(v.UnsafePointer()), len(q.Host))
		case reflect.Pointer:
			a.Args[i] = raw(v)
		}
	}
	var failed *driver.CallError
	if errors.As(err, &failed) {
		a.Call, a.Status = failed.Call, int32(reflect.ValueOf(failed.Status).Int())
	}
	return a
}

// raw is the memory that a pointer points to.
func raw(p reflect.Value) []byte {
	return unsafe.Slice((*byte)(p.UnsafePointer()), p.Type().Elem().Size())
}

// caller is a process of its own that uses another process's machine.
type caller struct {
	mu  sync.Mutex
	in  *gob.Decoder
	out *gob.Encoder
}

// Dial connects with a machine that is served at a unix socket. The connection
// lasts as long as the process.
func Dial(path string) (*driver.CUDA, *driver.NCCL, error) {
	c, err := net.Dial("unix", path)
	if err != nil {
		return nil, nil, err
	}
	r := &caller{in: gob.NewDecoder(c), out: gob.NewEncoder(c)}
	cuda, nccl := &driver.CUDA{}, &driver.NCCL{}
	r.fill("CUDA", reflect.ValueOf(cuda).Elem(), func(status int32) error { return driver.CUResult(status) })
	r.fill("NCCL", reflect.ValueOf(nccl).Elem(), func(status int32) error { return driver.NCCLResult(status) })
	r.keepHere(cuda, nccl)
	return cuda, nccl, nil
}

// fill makes every function of a library a call over the wire.
func (r *caller) fill(library string, table reflect.Value, status func(int32) error) {
	for i := range table.NumField() {
		f := table.Field(i)
		if f.Kind() != reflect.Func || f.Type().Out(0).Kind() != reflect.Interface {
			continue
		}
		name := table.Type().Field(i).Name
		f.Set(reflect.MakeFunc(f.Type(), func(args []reflect.Value) []reflect.Value {
			err := reflect.New(f.Type().Out(0)).Elem()
			if e := r.call(library, name, args, nil, nil, status); e != nil {
				err.Set(reflect.ValueOf(e))
			}
			return []reflect.Value{err}
		}))
	}
}

func (r *caller) call(library, name string, args []reflect.Value, to, from []byte, status func(int32) error) error {
	q := question{Library: library, Function: name, Args: make([][]byte, len(args)), Host: append(from, to...)}
	for i, v := range args {
		switch v.Kind() {
		case reflect.UnsafePointer:
		case reflect.Pointer:
			q.Args[i] = raw(v)
		default:
			p := reflect.New(v.Type())
			p.Elem().Set(v)
			q.Args[i] = raw(p)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var a answer
	if err := errors.Join(r.out.Encode(q), r.in.Decode(&a)); err != nil {
		return fmt.Errorf("the fake machine is gone: %w", err)
	}
	for i, v := range args {
		if v.Kind() == reflect.Pointer && len(a.Args) > i {
			copy(raw(v), a.Args[i])
		}
	}
	copy(to, a.Host)
	if a.Status != 0 {
		return &driver.CallError{Call: a.Call, Status: status(a.Status)}
	}
	return nil
}

// keepHere replaces what means something in this process alone: text, host
// memory, descriptors.
func (r *caller) keepHere(c *driver.CUDA, n *driver.NCCL) {
	cuResult := func(status int32) error { return driver.CUResult(status) }
	c.DeviceGetName = func(name *byte, size int32, _ driver.Device) error {
		copy(unsafe.Slice(name, size), "Fake GPU\x00")
		return nil
	}
	c.DeviceGetPCIBusID = func(id *byte, size int32, d driver.Device) error {
		copy(unsafe.Slice(id, size), fmt.Sprintf("0000:%02X:00.0\x00", int(d)+1))
		return nil
	}
	c.MemHostRegister = func(unsafe.Pointer, uintptr, uint32) error { return nil }
	c.MemHostUnregister = func(unsafe.Pointer) error { return nil }
	c.MemcpyHtoDAsync = func(to driver.DevicePtr, from unsafe.Pointer, n uintptr, s driver.Stream) error {
		return r.call("CUDA", "MemcpyHtoDAsync", values(to, from, n, s), nil, unsafe.Slice((*byte)(from), n), cuResult)
	}
	c.MemcpyDtoH = func(to unsafe.Pointer, from driver.DevicePtr, n uintptr) error {
		return r.call("CUDA", "MemcpyDtoH", values(to, from, n), unsafe.Slice((*byte)(to), n), nil, cuResult)
	}
	overWire := c.MemImportFromShareableHandle
	c.MemImportFromShareableHandle = func(h *driver.MemHandle, fd uintptr, kind int32) error {
		inode, err := Inode(int(fd))
		if err != nil {
			return err
		}
		return overWire(h, uintptr(inode), kind)
	}
	n.GetLastError = func(driver.Comm) string { return "fake" }
}

func values(args ...any) (out []reflect.Value) {
	for _, a := range args {
		out = append(out, reflect.ValueOf(a))
	}
	return out
}
