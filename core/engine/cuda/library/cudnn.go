package library

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// DNN makes convolutions by cuDNN's graph interface. A plan is made once for
// each convolution that a device has seen; plans and what they were made of
// live as long as the device.
type DNN struct {
	api    *driver.DNN
	handle driver.DNNHandle
	tf32   bool // convolutions of float32 may be made of their upper 11 bits
	vary   bool // equal runs may give other bits
	limit  int  // bytes of workspace that a plan may want
	plans  map[Convolution]*ConvPlan

	// fastest picks one of several plans by trying them; nil: the first is taken.
	fastest func(c Convolution, plans []*ConvPlan) *ConvPlan

	// absent describes a device that is not in this machine, for which plans
	// are made instead; 0 for the one behind the handle.
	absent driver.BackendDescriptor
}

// openDNN makes a handle whose work goes to a stream.
func openDNN(api *driver.DNN, stream driver.Stream) (*DNN, error) {
	n := &DNN{api: api, plans: map[Convolution]*ConvPlan{}, limit: convWorkspace}
	if err := api.Create(&n.handle); err != nil {
		return nil, err
	}
	return n, api.SetStream(n.handle, stream)
}

// DNNForAbsent makes plans for a device that is not in this machine, described
// in cuDNN's JSON; 9.8 and later can do that. They cannot be run.
func DNNForAbsent(api *driver.DNN, description []byte) (n *DNN, err error) {
	n = &DNN{api: api, plans: map[Convolution]*ConvPlan{}, limit: convWorkspace}
	o := &descriptorList{api: api} // lives as long as the plans
	n.absent, err = o.add(driver.DNNDevicePropDescriptor, many(driver.DNNDevicePropJSON, driver.DNNTypeChar, description...))
	return n, err
}

// lastWords is the message of the library about its last error, if it has one.
func (n *DNN) lastWords() string {
	text := make([]byte, 512)
	if n.api.GetLastErrorString != nil {
		n.api.GetLastErrorString(&text[0], uintptr(len(text)))
	}
	if s := driver.FromBuffer(text); s != "" {
		return " (" + s + ")"
	}
	return ""
}

// attribute is one of a descriptor's.
type attribute struct {
	name, kind int32
	count      int64
	at         unsafe.Pointer
}

func many[T any](name, kind int32, v ...T) attribute {
	return attribute{name, kind, int64(len(v)), unsafe.Pointer(unsafe.SliceData(v))}
}

func int64s(name int32, v ...int64) attribute { return many(name, driver.DNNTypeInt64, v...) }

func descriptors(name int32, v ...driver.BackendDescriptor) attribute {
	return many(name, driver.DNNTypeDescriptor, v...)
}

// descriptorList are descriptors that are destroyed together.
type descriptorList struct {
	api *driver.DNN
	all []driver.BackendDescriptor
}

func (o *descriptorList) free() (err error) {
	for _, d := range slices.Backward(o.all) {
		err = errors.Join(err, o.api.BackendDestroy(d))
	}
	o.all = nil
	return err
}

// empty makes a descriptor that the library fills.
func (o *descriptorList) empty(kind int32) (d driver.BackendDescriptor, err error) {
	if err = o.api.BackendCreate(kind, &d); err == nil {
		o.all = append(o.all, d)
	}
	return d, err
}

// add makes a descriptor with its attributes.
func (o *descriptorList) add(kind int32, attributes ...attribute) (driver.BackendDescriptor, error) {
	d, err := o.empty(kind)
	if err != nil {
		return 0, err
	}
	for _, a := range attributes {
		if err := o.api.BackendSetAttribute(d, a.name, a.kind, a.count, a.at); err != nil {
			return 0, fmt.Errorf("attribute %d: %w", a.name, err)
		}
	}
	return d, o.api.BackendFinalize(d)
}

// on adds what says where a descriptor is for: the handle, or the absent device.
func (n *DNN) on(handle, device int32) []attribute {
	if n.absent == 0 {
		return []attribute{many(handle, driver.DNNTypeHandle, n.handle)}
	}
	if device == 0 {
		return nil
	}
	return []attribute{descriptors(device, n.absent)}
}

// engines are configurations that can run an operation graph, best first:
// what the heuristics of a mode think.
func (n *DNN) engines(o *descriptorList, ops driver.BackendDescriptor, mode int32) ([]driver.BackendDescriptor, error) {
	attributes := []attribute{descriptors(driver.DNNHeuristicsGraph, ops), many(driver.DNNHeuristicsMode, driver.DNNTypeHeuristicMode, mode)}
	if n.absent != 0 {
		attributes = append(attributes, descriptors(driver.DNNHeuristicsDevice, n.absent))
	}
	h, err := o.add(driver.DNNEngineHeuristicsDescriptor, attributes...)
	if err != nil {
		return nil, err
	}
	const enough = 16
	configs := make([]driver.BackendDescriptor, enough)
	for i := range configs {
		if configs[i], err = o.empty(driver.DNNEngineConfigDescriptor); err != nil {
			return nil, err
		}
	}
	var count int64
	err = n.api.BackendGetAttribute(h, driver.DNNHeuristicsResult, driver.DNNTypeDescriptor, enough, &count, unsafe.Pointer(&configs[0]))
	return configs[:min(count, enough)], err
}

// fits reports whether an engine computes as the device promises: the same bits every time
// unless they may vary, sums in float32, and float32 numbers whole unless TF32 is allowed.
func (n *DNN) fits(o *descriptorList, config driver.BackendDescriptor, full bool) (bool, error) {
	engine, err := o.empty(driver.DNNEngineDescriptor)
	if err != nil {
		return false, err
	}
	var count int64
	if err := n.api.BackendGetAttribute(config, driver.DNNConfigEngine, driver.DNNTypeDescriptor, 1, &count, unsafe.Pointer(&engine)); err != nil {
		return false, err
	}
	var notes [16]int32
	if err := n.api.BackendGetAttribute(engine, driver.DNNEngineNumericalNotes, driver.DNNTypeNumericalNote, int64(len(notes)), &count, unsafe.Pointer(&notes)); err != nil {
		return false, err
	}
	for _, note := range notes[:min(count, int64(len(notes)))] {
		switch note {
		case driver.DNNNoteNondeterministic:
			if !n.vary {
				return false, nil
			}
		case driver.DNNNoteReducedReduction, driver.DNNNoteFFT, driver.DNNNoteWinograd6x6, driver.DNNNoteWinograd13x13:
			return false, nil
		case driver.DNNNoteTensorCore, driver.DNNNoteDownConvert:
			if full {
				return false, nil
			}
		}
	}
	return true, nil
}

// finish makes the plan of an engine's configuration, and tells its workspace in bytes.
func (n *DNN) finish(o *descriptorList, config driver.BackendDescriptor) (plan driver.BackendDescriptor, bytes int, err error) {
	attributes := append(n.on(driver.DNNPlanHandle, driver.DNNPlanDevice), descriptors(driver.DNNPlanConfig, config))
	if plan, err = o.add(driver.DNNExecutionPlanDescriptor, attributes...); err != nil {
		return 0, 0, err
	}
	var size, count int64
	err = n.api.BackendGetAttribute(plan, driver.DNNPlanWorkspace, driver.DNNTypeInt64, 1, &count, unsafe.Pointer(&size))
	return plan, int(size), err
}
