package driver

import "unsafe"

// CString is s with a final zero, for a C function that reads it before it returns.
func CString(s string) *byte { return unsafe.SliceData(append([]byte(s), 0)) }

// GoString copies a zero-terminated C string; nil is "".
func GoString(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// FromBuffer is the text up to the first zero of a buffer that C has filled.
func FromBuffer(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
