package mpi

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/sdk"
)

// handle is an opaque MPI object: an address with Open MPI, an int with MPICH, for which
// the upper half is 0.
type handle = uintptr

// functions are those of MPI 3.0 that this package calls. Buffers are addresses outside
// Go's memory, or the constant for in place.
type functions struct {
	InitThread        func(argc, argv uintptr, required int32, provided *int32) error                                                            `dl:"MPI_Init_thread"`
	CommSetErrhandler func(comm, handler handle) error                                                                                           `dl:"MPI_Comm_set_errhandler"`
	CommSplit         func(comm handle, color, key int32, out *handle) error                                                                     `dl:"MPI_Comm_split"`
	CommSize          func(comm handle, n *int32) error                                                                                          `dl:"MPI_Comm_size"`
	CommRank          func(comm handle, n *int32) error                                                                                          `dl:"MPI_Comm_rank"`
	Finalize          func() error                                                                                                               `dl:"MPI_Finalize"`
	Ibcast            func(buf uintptr, n int32, t handle, root int32, comm handle, r *handle) error                                             `dl:"MPI_Ibcast"`
	Iallgather        func(send uintptr, n int32, t handle, recv uintptr, m int32, u handle, comm handle, r *handle) error                       `dl:"MPI_Iallgather"`
	Iallgatherv       func(send uintptr, n int32, t handle, recv uintptr, counts, at *int32, u handle, comm handle, r *handle) error             `dl:"MPI_Iallgatherv"`
	Igatherv          func(send uintptr, n int32, t handle, recv uintptr, counts, at *int32, u handle, root int32, comm handle, r *handle) error `dl:"MPI_Igatherv"`
	Ialltoallv        func(send uintptr, n, at *int32, t handle, recv uintptr, m, recvAt *int32, u handle, comm handle, r *handle) error         `dl:"MPI_Ialltoallv"`
	Iallreduce        func(send, recv uintptr, n int32, t, op handle, comm handle, r *handle) error                                              `dl:"MPI_Iallreduce"`
	Isend             func(buf uintptr, n int32, t handle, to, tag int32, comm handle, r *handle) error                                          `dl:"MPI_Isend"`
	Irecv             func(buf uintptr, n int32, t handle, from, tag int32, comm handle, r *handle) error                                        `dl:"MPI_Irecv"`
}

// library is an open MPI library.
type library struct {
	functions
	abi
	path    string
	version string // the first line of what MPI_Get_library_version returns
	errText func(code int32, text *byte, n *int32) int32
	test    uintptr // MPI_Test, which is called most often
	running bool    // after MPI_Init_thread, before which errors have no texts
}

// implementation is a family of libraries with one binary interface.
type implementation struct {
	name  string
	spec  dl.Spec
	marks []string // in the text of MPI_Get_library_version
	abi   func(l *dl.Library) abi
}

var openMPI = implementation{
	name:  "Open MPI",
	spec:  dl.Spec{Name: "Open MPI", Sonames: []string{"libmpi.so.40"}, Env: envLibrary, Install: "install Open MPI (Debian: libopenmpi3)"},
	marks: []string{"Open MPI"},
	abi:   openMPIABI,
}

var mpich = implementation{
	name: "MPICH",
	spec: dl.Spec{Name: "MPICH", Sonames: []string{"libmpi.so.12", "libmpich.so.12", "libmpi_cray.so.12", "libmpi_gnu.so.12"}, Env: envLibrary, Install: "install MPICH (Debian: libmpich12)"},
	// The libraries of the MPICH ABI Compatibility Initiative.
	marks: []string{"MPICH", "Intel(R) MPI", "MVAPICH"},
	abi:   func(*dl.Library) abi { return mpichABI },
}

var implementations = []*implementation{&openMPI, &mpich}

// envLibrary names the library, or the directory that it is in.
const envLibrary = "TRAINCTL_LIBMPI"

// load opens the library that belongs to the launcher. given is the path from the options.
func load(f *dl.Finder, given string, by *launcher) (*library, error) {
	path, err := find(f, given, by)
	if err != nil {
		return nil, err
	}
	opened, err := dl.Open(path)
	if errors.Is(err, dl.ErrUnsupported) {
		return nil, unavailable("%v: use a build of trainctl for Linux on amd64 without the tag nogpu, or backend.plugin = \"tcp\"", err)
	}
	if err != nil {
		return nil, unavailable("%v", err)
	}
	return bind(opened, by)
}

func unavailable(format string, args ...any) error {
	return &sdk.Error{Code: sdk.CodeUnavailable, Text: "backend mpi: " + fmt.Sprintf(format, args...)}
}

// find returns the path of the library.
func find(f *dl.Finder, given string, by *launcher) (string, error) {
	if given != "" {
		if _, err := os.Stat(given); err != nil {
			return "", unavailable("backend.options.library: %v", err)
		}
		return given, nil
	}
	fits := implementations
	if by != nil {
		fits = by.fits
	}
	var fixes []string
	for _, i := range fits {
		if found := f.Find(i.spec); len(found) > 0 {
			return found[0].Path, nil
		}
		fixes = append(fixes, i.spec.Install)
	}
	for _, i := range implementations {
		if found := f.Find(i.spec); len(found) > 0 {
			return "", unavailable("%s has started this rank, but of the MPI libraries only %s of %s was found; %s, or start the job with the mpirun of %s",
				by.name, found[0].Path, i.name, fixes[0], i.name)
		}
	}
	return "", unavailable("no MPI library was found; %s, set backend.options.library to its path, or use backend.plugin = \"tcp\"", strings.Join(fixes, " or "))
}

// bind finds out what an open library is and takes its functions.
func bind(opened *dl.Library, by *launcher) (*library, error) {
	l := &library{path: opened.Path, test: opened.Symbol("MPI_Test")}
	var version struct {
		Get   func(text *byte, n *int32) int32             `dl:"MPI_Get_library_version"`
		Error func(code int32, text *byte, n *int32) int32 `dl:"MPI_Error_string"`
	}
	_, err := dl.Bind(opened, &version, nil)
	if err == nil {
		_, err = dl.Bind(opened, &l.functions, l.failed)
	}
	if err != nil || l.test == 0 {
		return nil, unavailable("%s is not a library of MPI 3.0 or newer: %v", l.path, err)
	}
	l.errText = version.Error
	text := make([]byte, 8192) // MPI_MAX_LIBRARY_VERSION_STRING of MPICH, the longest
	var n int32
	version.Get(&text[0], &n)
	full := string(text[:max(0, min(int(n), len(text)))])
	line, _, _ := strings.Cut(strings.TrimRight(full, "\x00\n"), "\n")
	l.version = strings.Join(strings.Fields(line), " ")
	which := implementationOf(full)
	switch {
	case which == nil:
		return nil, unavailable("%s is %q, which is neither Open MPI nor of MPICH's binary interface; set backend.options.library to the path of one that is", l.path, l.version)
	case by != nil && !by.accepts(which):
		return nil, unavailable("%s has started this rank, but %s is %s, which cannot find its other ranks; set backend.options.library to the library of that mpirun", by.name, l.path, l.version)
	}
	l.abi = which.abi(opened)
	return l, l.complete()
}

// implementationOf recognises the text of MPI_Get_library_version, nil if it is unknown.
func implementationOf(version string) *implementation {
	for _, i := range implementations {
		for _, mark := range i.marks {
			if strings.Contains(version, mark) {
				return i
			}
		}
	}
	return nil
}

func (l *launcher) accepts(which *implementation) bool {
	for _, i := range l.fits {
		if i == which {
			return true
		}
	}
	return false
}

// callError is a failed call of MPI.
type callError struct {
	Function string
	Code     int32
	Text     string
}

func (e *callError) Error() string {
	return fmt.Sprintf("%s: %s (code %d)", e.Function, e.Text, e.Code)
}

// failed makes an error of a code that a function returned.
func (l *library) failed(function string, code int32) error {
	text := make([]byte, 1024) // twice MPI_MAX_ERROR_STRING
	var n int32
	e := &callError{Function: function, Code: code, Text: "unknown error"}
	if l.running && l.errText(code, &text[0], &n) == 0 && n > 0 && int(n) <= len(text) {
		e.Text = strings.TrimSpace(string(text[:n]))
	}
	return e
}
