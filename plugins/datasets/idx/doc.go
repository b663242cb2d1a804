// Package idx reads the IDX format of MNIST and its relatives: a big-endian
// magic number (two zero bytes, element type, number of dimensions), one
// uint32 per dimension, then the elements in C order. Files may be compressed with
// gzip, which is detected by their first bytes, not by name.
//
// Everything in a file is checked: the header against the length of the file before
// anything is allocated, the gzip checksum, and that nothing follows the last
// element.
//
// It imports core/base/openfile. Start with idx.go.
package idx
