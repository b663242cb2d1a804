package idx

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
)

// maxRatio bounds the bytes that deflate can produce from one byte (RFC 1951: 258
// bytes for a length and a distance code of one bit each), so that a short file
// cannot cause a large allocation.
const maxRatio = 1032

func isGzip(b []byte) bool { return len(b) >= 2 && b[0] == 0x1f && b[1] == 0x8b }

// parseGzip decompresses to memory of exactly the size in the IDX header, after
// checking that the gzip trailer (RFC 1952: length modulo 2^32) agrees.
func parseGzip(raw []byte, dims int) (*Array, error) {
	in := bytes.NewReader(raw)
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, broken(0, err)
	}
	z.Multistream(false)
	head := make([]byte, headerLen(dims))
	n, err := io.ReadFull(z, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, broken(int64(n), err)
	}
	h, err := parseHeader(head[:n], dims)
	if err != nil {
		return nil, err
	}
	if err := checkTrailer(raw, h); err != nil {
		return nil, err
	}
	whole := make([]byte, h.len+h.bytes)
	copy(whole, head)
	if n, err := io.ReadFull(z, whole[h.len:]); err != nil {
		return nil, broken(h.len+int64(n), err)
	}
	return &Array{Dims: h.dims, Data: whole[h.len:], whole: whole}, checkEnd(z, in, h)
}

// trailer is the end of a gzip file (RFC 1952): CRC-32 of the content and its length
// modulo 2^32.
func trailer(raw []byte) (crc, size uint32) {
	end := raw[len(raw)-8:]
	return binary.LittleEndian.Uint32(end), binary.LittleEndian.Uint32(end[4:])
}

// checkTrailer compares the length in the header with the one in the last four bytes
// before memory is allocated for it.
func checkTrailer(raw []byte, h header) error {
	_, announced := trailer(raw)
	size := int64(announced)
	if size > maxRatio*int64(len(raw)) {
		return wrongf(0, again, "truncated or damaged: the gzip trailer announces %d bytes out of %d compressed ones", size, len(raw))
	}
	if err := checkLength(h, size); err != nil {
		err := err.(*Error)
		err.Detail += " (by the gzip trailer; the compressed file may be cut short)"
		return err
	}
	return nil
}

// checkEnd reads past the last element, which makes gzip verify checksum and length,
// and looks for bytes after the stream.
func checkEnd(z *gzip.Reader, in *bytes.Reader, h header) error {
	end := h.len + h.bytes
	var one [1]byte
	if n, err := z.Read(one[:]); n != 0 {
		return wrongf(end, again, "bytes follow the last element announced by the header %v", h.dims)
	} else if err != io.EOF {
		return broken(end, err)
	}
	if in.Len() > 0 {
		return wrongf(end, again, "%d bytes follow the gzip stream", in.Len())
	}
	return nil
}

func broken(offset int64, err error) error {
	switch {
	case errors.Is(err, gzip.ErrChecksum):
		return wrongf(offset, again, "the gzip checksum does not match: the content is damaged")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return wrongf(offset, again, "truncated: the compressed stream ends here")
	default:
		return wrongf(offset, again, "the compressed stream is damaged: %v", err)
	}
}
