package loopback

import (
	"net"
	"testing"
)

// Pair returns both ends of a TCP connection over loopback, which the caller closes. Unlike
// net.Pipe's, they are buffered: neither end waits for the other to read.
func Pair(t testing.TB) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if far, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if near, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return near, far
}
