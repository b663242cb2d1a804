package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// tagSize is the length of the message that carries one descriptor.
const tagSize = 8

// SendFile sends a descriptor with a tag that tells the receiver what it is. It
// respects the connection's write deadline. The file stays open here.
//
// Linux lets each user who is not privileged have as many descriptors on their way as a process may
// open (RLIMIT_NOFILE, unix(7)): SendFile waits until receivers have taken theirs.
func SendFile(conn *net.UnixConn, tag uint64, f *os.File) error {
	var msg [tagSize]byte
	binary.LittleEndian.PutUint64(msg[:], tag)
	rights := unix.UnixRights(int(f.Fd()))
	n, _, err := conn.WriteMsgUnix(msg[:], rights, nil)
	for pause := time.Millisecond; errors.Is(err, unix.ETOOMANYREFS); pause = min(2*pause, 50*time.Millisecond) {
		time.Sleep(pause)
		n, _, err = conn.WriteMsgUnix(msg[:], rights, nil)
	}
	if err != nil {
		return fmt.Errorf("shm: sending descriptor %d: %w", tag, err)
	}
	if n != tagSize {
		return fmt.Errorf("shm: sending descriptor %d: only %d bytes went out", tag, n)
	}
	return nil
}

// RecvFile receives one descriptor and its tag; the caller closes the file.
// It respects the connection's read deadline. io.EOF means that the peer has closed.
func RecvFile(conn *net.UnixConn) (tag uint64, f *os.File, err error) {
	var msg [tagSize]byte
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, flags, _, err := conn.ReadMsgUnix(msg[:], oob)
	if err != nil {
		return 0, nil, err
	}
	f, err = fileFrom(oob[:oobn])
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("shm: receiving a descriptor: %w", err)
	case n != tagSize || flags&unix.MSG_CTRUNC != 0:
		return 0, nil, errors.Join(fmt.Errorf("shm: receiving a descriptor: %d bytes, flags %#x", n, flags), f.Close())
	}
	return binary.LittleEndian.Uint64(msg[:]), f, nil
}

// fileFrom takes the only descriptor out of a control message.
func fileFrom(oob []byte) (*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	if len(messages) != 1 {
		return nil, fmt.Errorf("%d control messages instead of one", len(messages))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	if len(fds) != 1 {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		return nil, fmt.Errorf("%d descriptors instead of one", len(fds))
	}
	unix.CloseOnExec(fds[0])
	return os.NewFile(uintptr(fds[0]), "received"), nil
}
